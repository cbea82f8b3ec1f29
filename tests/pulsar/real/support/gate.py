"""The gateway in front of a Pulsar, as its users run it."""

from dataclasses import dataclass, field
from typing import Any

from tests.pulsar.real.support.admin import Admin
from tests.real.gate import GateProcess, Policies
from tests.real.ports import free_ports, free_run

__all__ = ["Gate", "Policies"]

_MOST_BROKERS = 4


@dataclass(slots=True)
class Gate(GateProcess):
    """`upstream` is the address of the binary protocol, `admin_url` what is behind the web listener."""

    admin_url: str | None = None
    """The cluster's admin API; without it the gate has no web listener."""
    port: int = field(default_factory=lambda: free_run(2 + _MOST_BROKERS))
    web_port: int = field(default_factory=lambda: free_ports(1)[0])

    @property
    def service_url(self) -> str:
        """What clients are given."""
        return f"pulsar://{self.bootstrap}"

    @property
    def web_url(self) -> str:
        """What admin clients are given."""
        return f"http://127.0.0.1:{self.web_port}"

    def web(self) -> Admin:
        """The admin API through the gateway."""
        return Admin(self.web_url)

    def entry(self) -> dict[str, Any]:
        """As `GateProcess.entry`."""
        entry: dict[str, Any] = {
            "name": "pulsar",
            "system": "pulsar",
            "bootstrap": self.upstream.split(","),
            "listen": {"host": "127.0.0.1", "port": self.port},
            "node_port_base": self.port + 1,
        }
        if self.admin_url is not None:
            entry["admin"] = {"url": self.admin_url}
            entry["web"] = {"listen": {"host": "127.0.0.1", "port": self.web_port}}
        return entry
