"""A gateway in this process, in front of a reference broker."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import yaml

from sluicegate.demo.ports import free_ports
from sluicegate.engine.state import TopicState
from sluicegate.processes.in_process import EmbeddedGateway
from sluicegate.testing.sink import RecordingSink
from sluicegate_grpc.semantics.calls import Calls


def write_file(
    directory: Path, addresses: Sequence[str], policies: Mapping[str, Any], entry: Mapping[str, Any]
) -> Path:
    """The file of a gateway in front of a broker, whose admin API is asked at its first address.

    :param addresses: `host:port` of each broker.
    :param policies: as in the file.
    :param entry: more of the broker's entry.
    """
    path = directory / "gateway.yaml"
    port = free_ports(5)  # lookups tell them, so that the gateway must know them
    told = {
        "name": "danube",
        "system": "danube",
        "bootstrap": list(addresses),
        "listen": {"port": port},
        "node_port_base": port + 1,
        "admin": {"url": f"http://{addresses[0]}"},
        **entry,
    }
    config = {"brokers": [told], "state_dir": str(directory / "state"), "policies": dict(policies)}
    path.write_text(yaml.safe_dump(config))
    return path


class Gate:
    """A gateway that serves.

    :param sink: has every decision.
    """

    def __init__(self, gateway: EmbeddedGateway, path: Path, sink: RecordingSink) -> None:
        self.gateway = gateway
        self.sink = sink
        self._path = path

    @property
    def address(self) -> str:
        """Where clients connect: `host:port`."""
        host, port = self.gateway.address()
        return f"{host}:{port}"

    @property
    def url(self) -> str:
        """The same as a URL."""
        scheme = "http" if self.gateway.config.brokers[0].tls.client is None else "https"
        return f"{scheme}://{self.address}"

    def state(self, topic: str) -> TopicState:
        """What the engine keeps of a topic."""
        return self.gateway.worker().gates.states[topic]

    @property
    def calls(self) -> Calls:
        """Who is attached, as the gateway sees it."""
        front: Any = self.gateway.worker()._front
        calls: Calls = front._started.calls
        return calls

    def counters(self) -> Mapping[str, int]:
        """Event counters of the front."""
        return self.gateway.worker()._front.counters()

    def change(self, **settings: Any) -> None:
        """Give one topic other policies, instead of all that there were.

        :param settings: `name`, and the policies.
        """
        config = yaml.safe_load(self._path.read_text())
        config["policies"] = {"topics": [settings]}
        self._path.write_text(yaml.safe_dump(config))
        loaded = EmbeddedGateway.from_file(self._path)
        self.gateway.set_policies(loaded._layers)


@asynccontextmanager
async def gate(
    directory: Path, addresses: Sequence[str], policies: Mapping[str, Any] | None = None, **entry: Any
) -> AsyncIterator[Gate]:
    """A gateway within the block. Parameters as for `write_file`."""
    sink = RecordingSink()
    path = write_file(directory, addresses, policies or {}, entry)
    async with EmbeddedGateway.from_file(path, make_sink=lambda _: sink) as gateway:
        yield Gate(gateway, path, sink)


def on_topic(name: str, **settings: Any) -> dict[str, Any]:
    """Policies of one topic."""
    return {"topics": [{"name": name, **settings}]}


@asynccontextmanager
async def channel(of: Gate) -> AsyncIterator[grpc.aio.Channel]:
    """A plain channel to a gateway, for bare stubs."""
    # A channel of its own connection: grpc shares those of equal channels in one process.
    async with grpc.aio.insecure_channel(of.address, [("grpc.use_local_subchannel_pool", 1)]) as made:
        yield made
