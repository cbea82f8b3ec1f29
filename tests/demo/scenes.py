"""A demo without a backend: its scenes play on their own, in front of a gate that nobody connects to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from sluicegate.demo import Backend, Observation, Scene, Stage
from sluicegate.demo.ports import free_ports


class NoBroker:
    """A `BrokerDemo` whose scenes are given."""

    label = "nothing at all"
    client = "no client"
    client_loggers = ("nobody",)

    def __init__(self, *scenes: Scene) -> None:
        self.scenes = scenes

    def missing(self) -> str:
        return ""

    @asynccontextmanager
    async def backend(self) -> AsyncIterator[Backend]:
        port = free_ports(3)
        yield Backend(
            {
                "bootstrap": [f"127.0.0.1:{port}"],
                "listen": {"host": "127.0.0.1", "port": port + 1},
                "node_port_base": port + 2,
            },
            ("it cannot do anything",),
        )


def scene(name: str, play: Callable[[Stage], Awaitable[Observation]], **settings: object) -> Scene:
    """A scene on a topic of its own."""
    return Scene(name, f"demo.{name}", settings or {"max_message_size": 10}, "nothing happens", play)


def saw(met: bool, text: str = "nothing", error: str = "") -> Callable[[Stage], Awaitable[Observation]]:
    """A play that ends at once."""

    async def play(stage: Stage) -> Observation:
        await asyncio.sleep(0)
        return Observation(met, text, error)

    return play
