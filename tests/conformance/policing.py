"""What decides at a door: a gateway in this process, or the engine of wrapped clients."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml

from sluicegate.demo.ports import free_ports
from sluicegate.embedded import PolicyEngine
from sluicegate.engine.gates import GateCache
from sluicegate.engine.state import TopicState
from sluicegate.processes.in_process import EmbeddedGateway
from sluicegate.testing.conformance.door import Setup
from sluicegate.testing.sink import RecordingSink

T = TypeVar("T")
_THREADS = ThreadPoolExecutor(256, "conformance")
"""A held call of a library that blocks keeps its thread, and many scenarios are played at once."""


async def in_thread(call: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Call what blocks."""
    work = partial(call, *arguments, **options)
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)


class Policed:
    """The part of a door that decides; its doors add the clients.

    :param file: the policy file.
    :param sink: has every decision.
    :param gates: of the gateway's worker or of the engine.
    :param tells_reasons: whether the library tells the text of a refusal.
    """

    def __init__(self, file: Path, sink: RecordingSink, gates: GateCache, tells_reasons: bool) -> None:
        self.file, self.sink, self.tells_reasons = file, sink, tells_reasons
        self.gates = gates

    def state(self, topic: str) -> TopicState:
        """What the engine keeps of a topic."""
        return self.gates.states[topic]

    async def create_topic(self, topic: str, partitions: int, name: str, principal: str) -> None:
        """Create a topic, at doors that can."""
        raise NotImplementedError


def _write(setup: Setup, system: str, entry: Mapping[str, Any], *, lists: bool = True) -> Path:
    path = setup.directory / "gateway.yaml"
    policies = dict(setup.policies)
    if not lists:
        known = {"on_unknown": {"max_subscriptions_per_topic": "last"}}
        policies["broker"] = known | policies.get("broker", {})
    port = free_ports(3)
    listen = {"listen": {"host": "127.0.0.1", "port": port}, "node_port_base": port + 1}
    broker = {"name": system, "system": system, **listen, **entry, **setup.entry}
    config = {"brokers": [broker], "state_dir": str(setup.directory / "state"), "policies": policies}
    path.write_text(yaml.safe_dump(config))
    return path


@asynccontextmanager
async def by_gateway(
    setup: Setup, system: str, entry: Mapping[str, Any], *, lists: bool = True
) -> AsyncIterator[tuple[Policed, str]]:
    """A gateway in front of a broker, whose clients tell no texts of refusals, and its address.

    :param entry: what `brokers:` says of the broker.
    :param lists: whether the broker can tell which subscriptions there are; if not, those count that were
        let in here.
    """
    path, sink = _write(setup, system, entry, lists=lists), RecordingSink()
    async with EmbeddedGateway.from_file(path, make_sink=lambda _: sink) as gateway:
        host, port = gateway.address()
        yield Policed(path, sink, gateway.worker().gates, tells_reasons=False), f"{host}:{port}"


@asynccontextmanager
async def by_client(
    setup: Setup, system: str, entry: Mapping[str, Any]
) -> AsyncIterator[tuple[Policed, PolicyEngine]]:
    """The engine of all wrapped clients of a door."""
    path, sink = _write(setup, system, entry), RecordingSink()
    with PolicyEngine.from_file(path, sink=sink, door="client") as engine:
        yield Policed(path, sink, engine.gates, tells_reasons=True), engine
