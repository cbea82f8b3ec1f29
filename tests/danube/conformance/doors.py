"""The doors into the engine: interceptors in a server, interceptors in a client, and the proxy."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
from tests.danube.conformance.steps import Case
from tests.danube.support.gates import channel, gate, write_file

from sluicegate.embedded import PolicyEngine
from sluicegate.engine.state import TopicState
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
    tick: Callable[[int], None]
    """What is done once a second, with the monotonic time in ns."""


@asynccontextmanager
async def proxy(case: Case, directory: Path) -> AsyncIterator[Door]:
    """The wire proxy in front of the broker."""
    async with (
        ReferenceBroker() as broker,
        gate(directory, broker.addresses, case.policies, **case.entry) as through,
        channel(through) as to_gate,
    ):
        yield Door(to_gate, through.state, through.sink, through.gateway.worker()._front.tick)


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
        to_broker = await stack.enter_async_context(grpc.aio.insecure_channel(broker.addresses[0]))
        yield Door(to_broker, lambda topic: engine.gates.states[topic], sink, interceptor.enforcer._tick)


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
        to_broker = await stack.enter_async_context(made)
        door: Any = interceptors[0]
        tick = door._client.enforcer._tick
        yield Door(to_broker, lambda topic: engine.gates.states[topic], sink, tick)


def _engine(case: Case, directory: Path, broker: str, sink: RecordingSink) -> PolicyEngine:
    return PolicyEngine.from_file(write_file(directory, [broker], case.policies, case.entry), sink=sink)


def _ghost_release_s(engine: PolicyEngine) -> float:
    assert isinstance(engine.config, DanubeConfig)
    return engine.config.ghost_release / 1000


def _principal(metadata: Any) -> str:
    """As the proxy reads it."""
    return principal(tuple(metadata or ())) or ANONYMOUS


DOORS = {"server": server, "client": client, "proxy": proxy}
