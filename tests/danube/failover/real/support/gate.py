"""The gateway in front of a Danube cluster, as its users run it."""

from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness.danube_cluster import Broker
from tests.real.gate import GateProcess
from tests.real.ports import free_run

_MOST_BROKERS = 4


@dataclass(slots=True)
class Gate(GateProcess):
    """`upstream` is the addresses of all brokers, in the order of their ports at the gateway."""

    port: int = field(default_factory=lambda: free_run(1 + _MOST_BROKERS))

    @property
    def url(self) -> str:
        """What clients are given."""
        return f"http://{self.bootstrap}"

    def url_of(self, broker: Broker) -> str:
        """Where the gateway leads clients whose topic is at a broker."""
        return f"http://127.0.0.1:{self.port + 1 + self.upstream.split(',').index(broker.address)}"

    def entry(self) -> dict[str, Any]:
        """As `GateProcess.entry`."""
        return {
            "name": "danube",
            "system": "danube",
            "bootstrap": self.upstream.split(","),
            "listen": {"host": "127.0.0.1", "port": self.port},
            "node_port_base": self.port + 1,
        }
