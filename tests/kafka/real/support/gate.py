"""The gateway in front of a Kafka, as its users run it."""

from dataclasses import dataclass, field
from typing import Any

from tests.real.gate import GateProcess, Policies
from tests.real.ports import free_run

__all__ = ["Gate", "Policies"]

_MOST_NODES = 4


@dataclass(slots=True)
class Gate(GateProcess):
    """With a port for each node of the cluster, from the one after `port` on."""

    port: int = field(default_factory=lambda: free_run(2 + _MOST_NODES))

    def entry(self) -> dict[str, Any]:
        """As `GateProcess.entry`."""
        return {
            "name": "kafka",
            "system": "kafka",
            "bootstrap": self.upstream.split(","),
            "listen": {"host": "127.0.0.1", "port": self.port},
            "node_port_base": self.port + 1,
        }
