"""A plugin with the memory sources that a broker's entry configures under `pressure`."""

from collections.abc import Sequence

from sluicegate.broker import BrokerContext
from sluicegate.config.models import BrokerConfig
from sluicegate.config.pressure_section import MemorySource
from sluicegate.engine.pressure import PressureSource
from sluicegate.features.pressure.process import ProcessMemory
from sluicegate.features.pressure.scraped_memory import MetricsMemory
from sluicegate.hooks import hookimpl


@hookimpl
def sluicegate_pressure_sources(context: BrokerContext) -> Sequence[PressureSource]:
    """Create the memory sources of a broker's entry."""
    config: BrokerConfig = context.config
    return [_source(index, entry, context) for index, entry in enumerate(config.pressure.memory)]


def _source(index: int, entry: MemorySource, context: BrokerContext) -> PressureSource:
    name = f"memory_{entry.source}" if entry.source == "gateway" else f"memory_{entry.source}_{index}"
    if entry.source != "metrics":
        memory = ProcessMemory(entry.pid, pidfile=entry.pidfile, limit=entry.limit)
        return PressureSource(name, "memory", memory.read)
    metrics = MetricsMemory(
        entry.url or "",
        entry.used,
        entry.max,
        token=entry.token,
        timeout_s=entry.timeout / 1000,
        tls=context.broker_tls,
    )
    return PressureSource(name, "memory", metrics.read)
