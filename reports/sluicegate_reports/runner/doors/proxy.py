"""The proxy: the gateway stands between stock clients and the broker."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from sluicegate_reports.registry import kinds
from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.runner.doors.base import Arm, Setting, Way, lacking
from sluicegate_reports.runner.doors.entries import entry_of
from sluicegate_reports.runner.doors.gate import hosted, order_of, write_file


@asynccontextmanager
async def _open(setting: Setting) -> AsyncIterator[Way]:
    broker = setting.broker
    if broker is None:
        raise UnavailableError("there is no broker to stand in front of")
    file = setting.directory / "gateway.yaml"
    entry = entry_of(broker, setting.loaded.scenario)
    write_file(file, entry, setting.loaded.policies, setting.directory / "state")
    notes: list[str] = []
    async with hosted("gate", order_of(setting, "gate", file), setting.directory, notes) as (process, ready):
        judged = lacking(broker.system, setting.arm.door)
        yield Way((ready["address"],), judged=judged, process=process, notes=notes)


def arms() -> Iterator[Arm]:
    """One for each kind of broker."""
    return (Arm(system, "proxy", system, _open, broker=system) for system in kinds())
