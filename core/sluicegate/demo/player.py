"""The process of one system's clients: `python -m sluicegate.demo.player SYSTEM`.

It plays the requested scenes concurrently and reports what the clients of each saw. It is a separate process,
so that a client library that blocks, or aborts at exit, affects nothing else.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from sluicegate.demo.backend import demo_of
from sluicegate.demo.clients import DemoClient
from sluicegate.demo.gateway_process import metric
from sluicegate.demo.scene import ActionError, BrokerDemo, Scene, Seen
from sluicegate.host.children import commands, say

_SCENE_PATIENCES = 5
"""A scene can wait for several events, one after the other."""


@dataclass(frozen=True, slots=True)
class Task:
    """The scenes to play; the fields are those of the parent's message."""

    scenes: tuple[str, ...]
    address: str
    """Address of the gateway, host:port."""
    admin: str
    """URL of the gateway's administrative endpoint."""
    directory: str
    policies: Mapping[str, Any]
    attempt: int
    patience_s: float


@dataclass(slots=True)
class _Actions:
    """Pending requests of scenes to the backend, which the parent forwards."""

    waiting: dict[str, asyncio.Future[Mapping[str, Any]]] = field(default_factory=dict)

    async def ask(self, action: str, topic: str) -> Mapping[str, Any]:
        """Request an action as `Stage.act` does; one at a time for each topic."""
        answer = self.waiting[topic] = asyncio.get_running_loop().create_future()
        say({"act": action, "topic": topic})
        result = await answer
        if "error" in result:
            raise ActionError(f"{action}: {result['error']}")
        given: Mapping[str, Any] = result["given"]
        return given

    def answered(self, topic: str, result: Mapping[str, Any]) -> None:
        """Pass a result to the scene that waits for it, unless the scene was cancelled."""
        answer = self.waiting.pop(topic)
        if not answer.done():
            answer.set_result(result)


@dataclass(frozen=True, slots=True)
class _Stage:
    """The stage of one scene (`scene.Stage`)."""

    demo: BrokerDemo
    task: Task
    actions: _Actions
    topic: str
    directory: Path
    policies: Mapping[str, Any]
    attempt: int
    patience_s: float

    def clients(self) -> AbstractAsyncContextManager[DemoClient]:
        return self.demo.clients(self.task.address)

    async def metric(self, name: str) -> float | None:
        return await asyncio.to_thread(metric, self.task.admin, name, self.topic)

    async def act(self, action: str) -> Mapping[str, Any]:
        return await self.actions.ask(action, self.topic)

    def change_policy(self, settings: Mapping[str, Any]) -> None:
        say({"change": self.topic, "settings": dict(settings)})


def _stage(demo: BrokerDemo, task: Task, scene: Scene, actions: _Actions) -> _Stage:
    directory = Path(task.directory)
    return _Stage(demo, task, actions, scene.topic, directory, task.policies, task.attempt, task.patience_s)


async def _play(demo: BrokerDemo, task: Task, scene: Scene, actions: _Actions) -> None:
    began = monotonic()
    longest = _SCENE_PATIENCES * task.patience_s
    try:
        async with asyncio.timeout(longest):
            seen = await scene.play(_stage(demo, task, scene, actions))
    except TimeoutError:
        seen = Seen(False, f"not over after {longest:.0f} s")
    except Exception as error:  # noqa: BLE001 - shown in the table, and the demo fails
        seen = Seen(False, "the scene could not be played", f"{type(error).__name__}: {error}")
    say({"played": scene.name, "seen": asdict(seen), "seconds": monotonic() - began})


async def _run(system: str) -> None:
    demo = demo_of(system)
    scenes = {scene.name: scene for scene in demo.scenes}
    actions = _Actions()

    async def play(task: Task) -> None:
        await asyncio.gather(*(_play(demo, task, scenes[name], actions) for name in task.scenes))
        say({"over": True})

    say({"ready": True})
    async with asyncio.TaskGroup() as playing:
        async for command in commands():
            if "acted" in command:
                actions.answered(command["topic"], command["acted"])
            else:
                playing.create_task(play(Task(**command)))


if __name__ == "__main__":
    import uvloop

    uvloop.run(_run(sys.argv[1]))
    # Skip the normal exit: threads of client libraries may still wait for brokers, or abort.
    sys.stdout.flush()
    os._exit(0)
