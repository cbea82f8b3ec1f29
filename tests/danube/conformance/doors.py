"""The doors into the engine: interceptors in a server, interceptors in a client, and the proxy."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import yaml
from tests.danube.conformance.steps import Case

from sluicegate.embedded import PolicyEngine
from sluicegate.engine.state import TopicState
from sluicegate.gateway.embedded import EmbeddedGateway
from sluicegate.model import ANONYMOUS
from sluicegate.testing.sink import RecordingSink
from sluicegate_danube.config import DanubeConfig
from sluicegate_danube.principals import principal
from sluicegate_danube.reference import ReferenceBroker
from sluicegate_grpc.aio import PolicyServerInterceptor, policy_client_interceptors


@dataclass(frozen=True)
class Door:
    """A reference broker behind one of the doors."""

    channel: grpc.aio.Channel
    """A channel through the door."""
    state: Callable[[str], TopicState]
    """What the engine keeps of a topic."""
    sink: RecordingSink
    """Every decision."""


def policy_file(case: Case, directory: Path, broker: str) -> Path:
    """The same file for each door."""
    path = directory / "gateway.yaml"
    entry = {
        "name": "danube",
        "system": "danube",
        "bootstrap": [broker],
        "listen": {"port": 0},
        "admin": {"url": f"http://{broker}"},
        **case.entry,
    }
    config = {"brokers": [entry], "state_dir": str(directory / "state"), "policies": dict(case.policies)}
    path.write_text(yaml.safe_dump(config))
    return path


@asynccontextmanager
async def proxy(case: Case, directory: Path) -> AsyncIterator[Door]:
    """The wire proxy in front of the broker."""
    sink = RecordingSink()
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(ReferenceBroker())
        file = policy_file(case, directory, broker.addresses[0])
        gateway = EmbeddedGateway.from_file(file, make_sink=lambda _: sink)
        await stack.enter_async_context(gateway)
        host, port = gateway.address()
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"{host}:{port}"))
        gates = gateway.worker()._compiler.gates
        yield Door(channel, lambda topic: gates.states[topic], sink)


@asynccontextmanager
async def server(case: Case, directory: Path) -> AsyncIterator[Door]:
    """Interceptors in the broker's own server."""
    sink = RecordingSink()
    async with AsyncExitStack() as stack:
        engine = stack.enter_context(_engine(case, directory, "127.0.0.1:1", sink))
        interceptor = PolicyServerInterceptor(
            engine,
            engine.method_map(),
            principal=lambda context: _principal(context.invocation_metadata()),
            ghost_release_s=_ghost_release_s(engine),
        )
        broker = await stack.enter_async_context(ReferenceBroker(interceptors=[interceptor]))
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(broker.addresses[0]))
        yield Door(channel, lambda topic: engine.gates.states[topic], sink)


@asynccontextmanager
async def client(case: Case, directory: Path) -> AsyncIterator[Door]:
    """Interceptors in the client."""
    sink = RecordingSink()
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(ReferenceBroker())
        engine = stack.enter_context(_engine(case, directory, broker.addresses[0], sink))
        interceptors = policy_client_interceptors(
            engine,
            engine.method_map(),
            principal=_principal,
            ghost_release_s=_ghost_release_s(engine),
        )
        made = grpc.aio.insecure_channel(broker.addresses[0], interceptors=interceptors)
        channel = await stack.enter_async_context(made)
        yield Door(channel, lambda topic: engine.gates.states[topic], sink)


def _engine(case: Case, directory: Path, broker: str, sink: RecordingSink) -> PolicyEngine:
    return PolicyEngine.from_file(policy_file(case, directory, broker), sink=sink)


def _ghost_release_s(engine: PolicyEngine) -> float:
    assert isinstance(engine.config, DanubeConfig)
    return engine.config.ghost_release / 1000


def _principal(metadata: Any) -> str:
    """As the proxy reads it."""
    return principal(tuple(metadata or ())) or ANONYMOUS


DOORS = {"server": server, "client": client}
