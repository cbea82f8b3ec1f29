"""Plays the scenes: brokers up, one gate in front of them in this process, all clients at once."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluicegate.config.errors import ConfigErrors
from sluicegate.config.load import Loaded, load
from sluicegate.demo.policy_file import PolicyFile
from sluicegate.demo.scene import BrokerDemo, Observation, Scene
from sluicegate.gateway import logs
from sluicegate.gateway.embedded import EmbeddedGateway
from sluicegate.gateway.plugins import Plugins
from sluicegate.hooks import hookimpl

Say = Callable[[str], object]
SCENE_S = 20.0
"""Longest time that a scene may take."""
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Played:
    """A scene and what was seen in it."""

    system: str
    scene: Scene
    observation: Observation
    seconds: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """A demo that has ended."""

    directory: Path
    policy_file: Path
    state_dir: Path
    played: tuple[Played, ...]
    """In the order of the table."""
    notes: Mapping[str, tuple[str, ...]]
    """What each system's backend cannot show."""
    seconds: float

    @property
    def different(self) -> int:
        """How many observations are not what the policy says."""
        return sum(not played.observation.met for played in self.played)


class _Seen:
    """A plugin: sees every decision that is not a plain allow, in the decision log's thread."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, Any]] = []

    @hookimpl
    def sluicegate_decisions(self, batch: Sequence[Mapping[str, Any]]) -> None:
        """Keep them; the demo is short."""
        self.rows.extend(batch)


class _Demonstration:
    """One run: its directory, its policy file, its gate."""

    def __init__(self, directory: Path, plugins: Plugins, say: Say) -> None:
        self.state_dir = directory / "state"
        self.file = PolicyFile(directory / "gateway.yaml", self.state_dir)
        self.seen = _Seen()
        self.say = say
        self._plugins = plugins
        self._gateway: EmbeddedGateway | None = None

    def _load(self) -> Loaded:
        # No environment: what overrides an operator's real configuration must not reach the demo.
        return load(self.file.path, self._plugins.policy_models, self._plugins.broker_models, {})

    def gateway(self) -> EmbeddedGateway:
        """A gate as the file says.

        :raises ConfigErrors: if the file has mistakes.
        """
        loaded = self._load()
        self._gateway = EmbeddedGateway(loaded.config, loaded.policy_layers, plugins=[self.seen])
        return self._gateway

    def change(self, topic: str, settings: Mapping[str, Any]) -> None:
        """Change the file, and put into force what it says now."""
        assert self._gateway is not None  # noqa: S101 - scenes are played behind a running gate
        self.file.change(topic, settings)
        self._gateway.set_policies(self._load().policy_layers)

    async def play(self, system: str, scene: Scene) -> Played:
        """Play a scene; whatever goes wrong in it is its observation."""
        assert self._gateway is not None  # noqa: S101 - as above
        host, port = self._gateway.address(system)
        began = time.monotonic()
        try:
            async with asyncio.timeout(SCENE_S):
                seen = await scene.play(_Stage(self, f"{host}:{port}", scene.topic))
        except TimeoutError:
            seen = Observation(False, f"not over after {SCENE_S:.0f} s")
        except ConfigErrors as refused:
            seen = Observation(False, "the changed policy file was refused", refused.render())
        except Exception as error:  # noqa: BLE001 - shown in the table, and the demo fails
            seen = Observation(False, "the scene could not be played", f"{type(error).__name__}: {error}")
        played = Played(system, scene, seen, time.monotonic() - began)
        verdict = "as expected" if seen.met else "DIFFERENT "
        self.say(f"{verdict}  {played.seconds:4.1f} s  {system}: {scene.name}")
        return played


@dataclass(frozen=True, slots=True)
class _Stage:
    """What a scene finds (`scene.Stage`)."""

    demonstration: _Demonstration
    address: str
    topic: str

    async def change_policy(self, settings: Mapping[str, Any]) -> None:
        self.demonstration.change(self.topic, settings)

    async def decisions(self, action: str, within_s: float = 5.0) -> Sequence[Mapping[str, Any]]:
        until = time.monotonic() + within_s
        while True:
            rows = [
                row
                for row in tuple(self.demonstration.seen.rows)
                if row["topic"] == self.topic and row["action"] == action
            ]
            if rows or time.monotonic() >= until:
                return rows
            await asyncio.sleep(_LOOK_S)


async def run_demo(
    demos: Mapping[str, BrokerDemo],
    plugins: Plugins,
    directory: Path,
    say: Say,
    only: frozenset[str] = frozenset(),
) -> Outcome:
    """Show every policy.

    :param demos: how to show each kind of broker, by system.
    :param plugins: what policy fields and brokers there are.
    :param directory: where policy file, logs and decision log go; exists.
    :param say: prints a line of progress.
    :param only: names of scenes; all of them if empty.
    :raises ConfigErrors: if a scene's settings are refused, such as those of a plugin that is not loaded.
    :raises OSError: if a port or a file cannot be had.
    """
    began = time.monotonic()
    shown = _Demonstration(directory, plugins, say)
    to_play: list[tuple[str, Scene]] = []
    notes: dict[str, tuple[str, ...]] = {}
    loggers = [name for demo in demos.values() for name in demo.client_loggers]
    async with AsyncExitStack() as stack:
        stack.enter_context(_logging_to(directory, loggers))
        for system, demo in demos.items():
            backend = await stack.enter_async_context(demo.backend())
            say(f"backend up: {demo.label}, at {backend.entry['bootstrap'][0]}")
            scenes = [scene for scene in demo.scenes if not only or scene.name in only]
            shown.file.add(system, demo, backend, scenes)
            to_play += [(system, scene) for scene in scenes]
            notes[system] = backend.notes
        shown.file.write()
        say(f"policy file: {shown.file.path}\n\n{shown.file.text()}")
        gateway = await stack.enter_async_context(shown.gateway())
        for system, demo in demos.items():
            host, port = gateway.address(system)
            say(f"gate up: {system} clients connect to {host}:{port}; they are {demo.client}")
        say(f"playing {len(to_play)} scenes side by side")
        played = await asyncio.gather(*(shown.play(system, scene) for system, scene in to_play))
    return Outcome(
        directory, shown.file.path, shown.state_dir, tuple(played), notes, time.monotonic() - began
    )


@contextmanager
def _logging_to(directory: Path, client_loggers: Sequence[str]) -> Iterator[None]:
    """Send what gate and clients log to files: on the terminal it would bury the table."""
    ours = logging.getLogger("sluicegate")
    before = ours.handlers[:], ours.level, ours.propagate
    theirs = [logging.getLogger(name) for name in client_loggers]
    with (
        (directory / "gateway.log").open("w", encoding="utf-8") as gate,
        (directory / "clients.log").open("w", encoding="utf-8") as clients,
    ):
        logs.set_up("info", "text", gate)
        handler = logging.StreamHandler(clients)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s %(message)s"))
        propagated = [logger.propagate for logger in theirs]
        for logger in theirs:
            logger.addHandler(handler)
            logger.propagate = False
        try:
            yield
        finally:
            for logger, propagate in zip(theirs, propagated, strict=True):
                logger.removeHandler(handler)
                logger.propagate = propagate
            ours.handlers[:], ours.level, ours.propagate = before
