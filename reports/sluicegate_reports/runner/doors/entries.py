"""The `brokers:` entry of a gateway in front of each kind of broker."""

from typing import Any

from sluicegate.demo.ports import free_ports
from sluicegate_reports.registry import kinds
from sluicegate_reports.runner.doors.base import Broker
from sluicegate_reports.runner.scenario import Scenario

_NODE_PORTS = 8


def entry_of(broker: Broker, scenario: Scenario) -> dict[str, Any]:
    """The entry of a gateway in front of a broker.

    :raises OSError: if there are no free ports.
    """
    port = free_ports(1 + _NODE_PORTS)
    entry: dict[str, Any] = {
        "name": "compare",
        "system": broker.system,
        "bootstrap": list(broker.addresses),
        "listen": {"host": "127.0.0.1", "port": port},
        "max_hold": scenario.max_hold,
    }
    if kinds()[broker.system].node_ports:
        entry["node_port_base"] = port + 1
    if broker.admin:
        entry["admin"] = {"url": broker.admin}
    if broker.system == "pulsar" and broker.embedded:
        entry["strict"] = "yes"
    return entry
