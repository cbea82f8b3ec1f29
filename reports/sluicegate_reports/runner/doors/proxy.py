"""The proxy: the gateway stands between stock clients and the broker."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from sluicegate.demo.ports import free_ports
from sluicegate_reports.registry import kinds
from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.runner.doors.base import Arm, Broker, Setting, Way
from sluicegate_reports.runner.doors.gate import gated

_NODE_PORTS = 8


@asynccontextmanager
async def _open(setting: Setting) -> AsyncIterator[Way]:
    if setting.broker is None:
        raise UnavailableError("there is no broker to stand in front of")
    async with gated(setting, "gate", _entry(setting.broker)) as way:
        yield way


def _entry(broker: Broker) -> dict[str, Any]:
    """What the gate is told of its broker.

    :raises OSError: if there are no free ports.
    """
    port = free_ports(1 + _NODE_PORTS)
    entry: dict[str, Any] = {
        "bootstrap": list(broker.addresses),
        "listen": {"host": "127.0.0.1", "port": port},
    }
    if kinds()[broker.system].node_ports:
        entry["node_port_base"] = port + 1
    if broker.admin:
        entry["admin"] = {"url": broker.admin}
    if broker.system == "pulsar" and broker.embedded:
        entry["strict"] = "yes"
    return entry


def arms() -> Iterator[Arm]:
    """One for each kind of broker."""
    return (Arm(system, "proxy", system, _open, broker=system) for system in kinds())
