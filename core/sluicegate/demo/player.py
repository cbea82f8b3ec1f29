"""The process of one system's clients: `python -m sluicegate.demo.player SYSTEM`.

It plays the scenes that it is told, side by side, and says what the clients of each saw. It is a process of
its own, so that a client library that blocks, or aborts when it ends, takes nothing else along.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from sluicegate.children import commands, say
from sluicegate.demo.backend import demo_of
from sluicegate.demo.clients import DemoClient
from sluicegate.demo.gate import metric
from sluicegate.demo.scene import BrokerDemo, Scene, Seen

_SCENE_PATIENCES = 5
"""A scene may wait for several things, one after the other."""


@dataclass(frozen=True, slots=True)
class Task:
    """What the parent wants played; the fields are those of its message."""

    scenes: tuple[str, ...]
    address: str
    """Of the gate, host:port."""
    admin: str
    """Of the gate's administrative endpoint, as a URL."""
    directory: str
    policies: Mapping[str, Any]
    attempt: int
    patience_s: float


@dataclass(frozen=True, slots=True)
class _Stage:
    """What a scene finds (`scene.Stage`)."""

    demo: BrokerDemo
    task: Task
    scene: Scene

    @property
    def topic(self) -> str:
        return self.scene.topic

    @property
    def directory(self) -> Path:
        return Path(self.task.directory)

    @property
    def policies(self) -> Mapping[str, Any]:
        return self.task.policies

    @property
    def attempt(self) -> int:
        return self.task.attempt

    @property
    def patience_s(self) -> float:
        return self.task.patience_s

    def clients(self) -> AbstractAsyncContextManager[DemoClient]:
        return self.demo.clients(self.task.address)

    async def metric(self, name: str) -> float | None:
        return await asyncio.to_thread(metric, self.task.admin, name, self.topic)

    def change_policy(self, settings: Mapping[str, Any]) -> None:
        say({"change": self.topic, "settings": dict(settings)})


async def _play(demo: BrokerDemo, task: Task, scene: Scene) -> None:
    began = monotonic()
    longest = _SCENE_PATIENCES * task.patience_s
    try:
        async with asyncio.timeout(longest):
            seen = await scene.play(_Stage(demo, task, scene))
    except TimeoutError:
        seen = Seen(False, f"not over after {longest:.0f} s")
    except Exception as error:  # noqa: BLE001 - shown in the table, and the demo fails
        seen = Seen(False, "the scene could not be played", f"{type(error).__name__}: {error}")
    say({"played": scene.name, "seen": asdict(seen), "seconds": monotonic() - began})


async def _run(system: str) -> None:
    demo = demo_of(system)
    scenes = {scene.name: scene for scene in demo.scenes}
    say({"ready": True})
    async for command in commands():
        task = Task(**command)
        await asyncio.gather(*(_play(demo, task, scenes[name]) for name in task.scenes))
        say({"over": True})


if __name__ == "__main__":
    import uvloop

    uvloop.run(_run(sys.argv[1]))
    # All is said. Threads of client libraries may still wait for brokers, or abort when their turn comes.
    sys.stdout.flush()
    os._exit(0)
