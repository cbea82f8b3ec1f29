"""The proxy: the gate stands between stock clients and the broker."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.runner.doors.base import Arm, Judged, Setting, Way
from sluicegate_reports.runner.doors.entries import entry_of
from sluicegate_reports.runner.doors.gate import hosted, order_of, write_file

_NO_ASKED_DELAY = Judged(not_applicable="its clients cannot ask for a delivery delay")
_NO_SINGLE = Judged(not_applicable="a group commits offsets and acknowledges no single message")
NOT_APPLICABLE: Mapping[str, Mapping[str, Judged]] = MappingProxyType(
    {
        "kafka": {
            "max_delivery_delay": _NO_ASKED_DELAY,
            "max_unacked_messages_per_consumer": _NO_SINGLE,
        },
        "danube": {"max_delivery_delay": _NO_ASKED_DELAY},
    }
)
"""Policies that make no sense on a system, at whatever door."""


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
        judged = NOT_APPLICABLE.get(broker.system, {})
        yield Way((ready["address"],), judged=judged, process=process, notes=notes)


ARMS = tuple(Arm(system, "proxy", system, _open, broker=system) for system in ("kafka", "pulsar", "danube"))
