"""The decision log of one broker as configured, behind the sink that logs refusals."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from sluicegate.config.models import BrokerConfig, GatewayConfig
from sluicegate.decisions import DecisionLog, RefusalJournal, Retention
from sluicegate.engine.faults import CAUGHT, error_text
from sluicegate.engine.gate import DecisionSink
from sluicegate.runtime.compacting import log_directory
from sluicegate.runtime.plugins import Plugins
from sluicegate.runtime.recording import Recording


class LogSink:
    """A decision log and the sink in front of it.

    :param config: says where and how much is written.
    :param broker: the broker whose decisions they are.
    :param plugins: the plugins that get the decisions (`sluicegate_decisions`).
    :param compacting: whether this process compacts Parquet files; otherwise another one does.
    :param door: where the decisions are made: proxy, interceptor or client.
    :param journal: whether refusals are kept for `sluicegate explain ID`.
    :param worker: index of this process among the workers of the broker, from 0.
    :param host: name of the host in the log; by default its own.
    """

    def __init__(
        self,
        config: GatewayConfig,
        broker: BrokerConfig,
        plugins: Plugins,
        *,
        compacting: bool = True,
        door: str = "proxy",
        journal: bool = True,
        worker: int = 0,
        host: str = "",
    ) -> None:
        settings = config.decisions
        watchers = plugins.implementations("sluicegate_decisions")

        def show(batch: Sequence[Mapping[str, Any]]) -> None:
            faults = []
            for watcher in watchers:
                try:
                    watcher(batch=batch)
                except CAUGHT as error:  # the others are to see the batch too
                    faults.append(RuntimeError(f"plugin {watcher.plugin}: {error_text(error)}"))
            if faults:
                raise ExceptionGroup("sluicegate_decisions", faults)

        self.log = DecisionLog(
            log_directory(config) if settings.enabled else None,
            broker.system,
            broker.name,
            settings.detail,
            settings.max_rows_queued,
            show if watchers else None,
            journal=RefusalJournal(config.state_dir, broker.system, broker.name) if journal else None,
            door=door,
            worker=worker,
            host=host,
            retention=Retention(max_bytes=settings.retention_size, max_age_s=settings.retention_age / 1000),
            compacting=compacting,
        )
        # The log needs less of a gate than the protocol promises, which mypy cannot verify for attributes.
        sink = cast("DecisionSink", self.log)
        sustained_ns = config.log.sustained_after * 1_000_000
        self.sink = Recording(sink, sustained_ns, show_ids=config.decision_id_in_errors)

    def stats(self) -> dict[str, int]:
        """Counters of the decision log."""
        return asdict(self.log.stats())

    async def close(self) -> None:
        """Write out queued decisions; may take as long as the disk."""
        await asyncio.to_thread(self.log.close)
