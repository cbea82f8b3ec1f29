"""Plays the scenes: brokers up, gates in front of them in this process, all clients at once."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluicegate.config.errors import ConfigErrors
from sluicegate.demo.gates import SeenDecisions, ShownGate, own_gate
from sluicegate.demo.scene import BrokerDemo, Observation, Scene
from sluicegate.gateway import logs
from sluicegate.gateway.plugins import Plugins

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
    policies: Mapping[str, Any] = field(default_factory=dict)
    """What it sets for a whole broker."""


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


@dataclass(frozen=True, slots=True)
class _ToPlay:
    """A scene, and where it is played."""

    system: str
    scene: Scene
    gate: ShownGate
    broker: str
    """Name of the entry."""
    policies: Mapping[str, Any]

    async def play(self, say: Say) -> Played:
        """Play it; whatever goes wrong in it is its observation."""
        host, port = self.gate.gateway.address(self.broker)
        began = time.monotonic()
        try:
            async with asyncio.timeout(SCENE_S):
                stage = _Stage(self.gate, self.broker, f"{host}:{port}", self.scene.topic, self.policies)
                seen = await self.scene.play(stage)
        except TimeoutError:
            seen = Observation(False, f"not over after {SCENE_S:.0f} s")
        except ConfigErrors as refused:
            seen = Observation(False, "the changed policy file was refused", refused.render())
        except Exception as error:  # noqa: BLE001 - shown in the table, and the demo fails
            seen = Observation(False, "the scene could not be played", f"{type(error).__name__}: {error}")
        played = Played(self.system, self.scene, seen, time.monotonic() - began, self.policies)
        verdict = "as expected" if seen.met else "DIFFERENT "
        say(f"{verdict}  {played.seconds:4.1f} s  {self.system}: {self.scene.name}")
        return played


@dataclass(frozen=True, slots=True)
class _Stage:
    """What a scene finds (`scene.Stage`)."""

    gate: ShownGate
    broker: str
    address: str
    topic: str
    policies: Mapping[str, Any]

    @property
    def directory(self) -> Path:
        return self.gate.directory

    def metric(self, name: str) -> float | None:
        for metric in self.gate.gateway.worker(self.broker).snapshot()["plugin_metrics"]:
            if metric["name"] == name:
                found = {tuple(labels): float(value) for labels, value in metric["values"]}
                return found.get((), found.get((self.topic,)))
        return None

    async def change_policy(self, settings: Mapping[str, Any]) -> None:
        self.gate.change(self.topic, settings)

    async def decisions(self, action: str, within_s: float = 5.0) -> Sequence[Mapping[str, Any]]:
        until = time.monotonic() + within_s
        while True:
            rows = [
                row
                for row in tuple(self.gate.seen.rows)
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
    shared = ShownGate(directory, directory / "state", plugins, SeenDecisions())
    loggers = [name for demo in demos.values() for name in demo.client_loggers]
    async with AsyncExitStack() as stack:
        stack.enter_context(_logging_to(directory, loggers))
        chosen = {
            system: [scene for scene in demo.scenes if not only or scene.name in only]
            for system, demo in demos.items()
        }
        together, notes = await _shared(stack, shared, demos, chosen, say)
        played = await _side_by_side(together, say)
        # Their rates are measured over time, which the others would disturb, and they the others.
        alone = [
            await _own(stack, shared, plugins, system, demo, scene, say)
            for system, demo in demos.items()
            for scene in chosen[system]
            if scene.own is not None
        ]
        played += await _side_by_side(alone, say)
    file = (together or alone)[0].gate.file
    return Outcome(
        directory, file.path, shared.file.state_dir, tuple(played), notes, time.monotonic() - began
    )


async def _side_by_side(scenes: Sequence[_ToPlay], say: Say) -> list[Played]:
    if scenes:
        say(f"playing {len(scenes)} scenes side by side")
    return await asyncio.gather(*(each.play(say) for each in scenes))


async def _shared(
    stack: AsyncExitStack,
    gate: ShownGate,
    demos: Mapping[str, BrokerDemo],
    chosen: Mapping[str, Sequence[Scene]],
    say: Say,
) -> tuple[list[_ToPlay], dict[str, tuple[str, ...]]]:
    """Start what most scenes share, where there are any; gives these, and each system's notes."""
    to_play: list[_ToPlay] = []
    notes: dict[str, tuple[str, ...]] = {}
    for system, demo in demos.items():
        scenes = [scene for scene in chosen[system] if scene.own is None]
        if not scenes:
            continue
        backend = await stack.enter_async_context(demo.backend())
        say(f"backend up: {demo.label}, at {backend.entry['bootstrap'][0]}")
        gate.file.add(system, demo, backend, scenes)
        to_play += [_ToPlay(system, scene, gate, system, {}) for scene in scenes]
        notes[system] = backend.notes
    if not to_play:
        return [], {}
    say(f"policy file: {gate.file.path}\n\n{gate.file.text()}")
    await gate.start(stack)
    for system in notes:
        host, port = gate.gateway.address(system)
        say(f"gate up: {system} clients connect to {host}:{port}; they are {demos[system].client}")
    return to_play, notes


async def _own(
    stack: AsyncExitStack,
    shared: ShownGate,
    plugins: Plugins,
    system: str,
    demo: BrokerDemo,
    scene: Scene,
    say: Say,
) -> _ToPlay:
    """Start what one scene has to itself."""
    gate, own = await own_gate(stack, shared, plugins, system, demo, scene)
    broker = gate.directory.name
    host, port = gate.gateway.address(broker)
    say(f"\nfor {system}: {scene.name} one more backend, and a gate at {host}:{port}")
    say(f"policy file: {gate.file.path}\n\n{gate.file.text()}")
    return _ToPlay(system, scene, gate, broker, own.policies)


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
