"""Pulsar, as the demo shows it (`sluicegate.demo.BrokerDemo`)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from importlib.util import find_spec

from sluicegate.demo.ports import free_ports
from sluicegate.demo.scene import Backend, Scene
from sluicegate_pulsar.demo import consuming, pressing, publishing

_MAX_HOLD = "5s"
_NOTES = (
    "not shown: connection_rate_limit, as it would slow down all scenes",
    "the web listener, which takes fixed delays over the admin API, runs with `sluicegate run` only",
)


class PulsarDemo:
    """The reference broker behind the gate, pulsar-client in front of it."""

    label = "in-memory reference broker, not Pulsar"
    client_loggers = ()
    scenes: tuple[Scene, ...] = (*publishing.SCENES, *consuming.SCENES, *pressing.SCENES)

    @property
    def client(self) -> str:
        """The client and its version."""
        return f"pulsar-client {version('pulsar-client')}"

    def missing(self) -> str:
        """What is not installed, with the remedy."""
        wanted = {"pulsar": "pulsar-client", "google": "protobuf", "httpx": "httpx"}
        absent = [name for module, name in wanted.items() if find_spec(module) is None]
        if not absent:
            return ""
        return f"{' and '.join(absent)} not installed; do: pip install 'sluicegate[pulsar]'"

    @asynccontextmanager
    async def backend(self) -> AsyncIterator[Backend]:
        """Start the reference broker, and find free ports for a gate in front of it."""
        from sluicegate_pulsar.reference import ReferenceBroker

        async with ReferenceBroker() as broker:
            entry = {
                "bootstrap": [broker.service_url.removeprefix("pulsar://")],
                "listen": {"host": "127.0.0.1", "port": free_ports(1)},
                "admin": {"url": broker.admin_url},
                "strict": "yes",
                "max_hold": _MAX_HOLD,
            }
            yield Backend(entry, _NOTES)
