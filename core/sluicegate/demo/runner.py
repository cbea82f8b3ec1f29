"""Plays the scenes with brokers, gateways and clients in separate processes, and judges the results."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sluicegate.decisions.reading import read_decisions
from sluicegate.demo.gateway_process import Gateway
from sluicegate.demo.grouping import capacity, groups
from sluicegate.demo.player import Task
from sluicegate.demo.policy_file import PolicyFile
from sluicegate.demo.ports import free_ports
from sluicegate.demo.scene import GATEWAY_LOG, Backend, BrokerDemo, Observation, Scene, Seen, Verdict
from sluicegate.demo.topic_log import Row, TopicLog
from sluicegate.host.children import Child, ChildError

Say = Callable[[str], object]
PATIENCE_S = 60.0
"""How long a scene waits for an expected event."""
_START_S = 120.0
_SILENCES = 6
"""A group's clients can be silent for this many times the patience: a scene can take five."""


@dataclass(frozen=True, slots=True)
class Played:
    """A scene and its result."""

    system: str
    scene: Scene
    observation: Observation
    seconds: float
    policies: Mapping[str, Any] = field(default_factory=dict)
    """Its policies at broker level."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a demo."""

    directory: Path
    policy_file: Path
    played: tuple[Played, ...]
    """In the order of the table."""
    rows: Sequence[Row]
    """Rows of the decision logs of all gateways, in order of time."""
    notes: Mapping[str, tuple[str, ...]]
    """The limitations of each system's backend."""
    seconds: float

    def count(self, verdict: Verdict) -> int:
        """Number of observations with this verdict."""
        return sum(played.observation.verdict is verdict for played in self.played)

    @property
    def state_dir(self) -> Path:
        """State directory of the gateway of most scenes."""
        return self.policy_file.parent / "state"


_Timed = tuple[Seen, float]
"""What clients saw, and the duration in seconds."""


@dataclass(slots=True)
class _Setup:
    """A gateway with its backends and clients."""

    gateway: Gateway
    players: Mapping[str, Child]
    backends: Mapping[str, Child]
    patience_s: float
    policies: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of the broker entries by system, if they differ from it."""

    async def play(self, system: str, scenes: Sequence[Scene], attempt: int) -> dict[str, _Timed]:
        """Play scenes of one system concurrently.

        :return: what clients saw, and the duration in seconds, by name of the scene.
        :raises ChildError: if the clients' process ends.
        """
        observed: dict[str, _Timed] = {}
        acting: list[asyncio.Task[None]] = []

        def take(message: Mapping[str, Any]) -> None:
            if "change" in message:
                self.gateway.file.change(message["change"], message["settings"])
            elif "act" in message:
                acting.append(asyncio.ensure_future(self._act(system, message, acting[-1:])))
            else:
                observed[message["played"]] = Seen(**message["seen"]), message["seconds"]

        task = Task(
            tuple(scene.name for scene in scenes),
            self.gateway.file.address(self.names.get(system, system)),
            self.gateway.admin,
            str(self.gateway.file.path.parent),
            self.policies,
            attempt,
            self.patience_s,
        )
        player = self.players[system]
        await player.tell(asdict(task))
        await player.hear("over", _SILENCES * self.patience_s, take)
        for each in acting:
            each.cancel()
        return observed

    async def _act(
        self, system: str, asked: Mapping[str, Any], before: Sequence["asyncio.Task[None]"]
    ) -> None:
        """Run an action of a backend for a scene, after earlier actions."""
        if before:
            await asyncio.wait(before)
        backend = self.backends[system]
        try:
            await backend.tell(asked)
            result = (await backend.hear("acted", _SILENCES * self.patience_s))["acted"]
        except ChildError as error:
            result = {"error": str(error)}
        await self.players[system].tell({"acted": result, "topic": asked["topic"]})

    async def rows(self) -> list[Row]:
        """All rows of the gateway's decision log so far."""
        await self.gateway.settled()
        rows: list[Row] = read_decisions(self.gateway.file.state_dir / "decisions").to_pylist()
        return rows


class _Demo:
    """A running demo."""

    def __init__(self, demos: Mapping[str, BrokerDemo], directory: Path, say: Say, patience_s: float) -> None:
        self._demos = demos
        self._directory = directory
        self._say = say
        self._patience_s = patience_s
        self.players: dict[str, Child] = {}
        self.notes: dict[str, tuple[str, ...]] = {}
        self.rows: list[Row] = []

    async def backend(self, stack: AsyncExitStack, system: str) -> tuple[Backend, Child]:
        """Start a backend's process, which ends with the stack."""
        log = self._directory / f"backend-{system}.log"
        child = await stack.enter_async_context(
            Child(f"{system}'s backend", "sluicegate.demo.backend", [system], log)
        )
        up = (await child.hear("up", _START_S))["up"]
        # One process chooses the ports of a file, as several that choose for themselves can choose the same.
        listen = {"host": "127.0.0.1", "port": free_ports(up["gateway_ports"])}
        backend = Backend({**up["entry"], "listen": listen}, tuple(up["notes"]))
        self._say(f"backend up: {self._demos[system].label}, at {backend.entry['bootstrap'][0]}")
        return backend, child

    async def start_players(self, stack: AsyncExitStack) -> None:
        """Start the processes of all clients."""
        for system in self._demos:
            log = self._directory / f"clients-{system}.log"
            self.players[system] = await stack.enter_async_context(
                Child(f"{system}'s clients", "sluicegate.demo.player", [system], log)
            )
        for player in self.players.values():
            await player.hear("ready", _START_S)

    async def gateway(self, stack: AsyncExitStack, file: PolicyFile) -> Gateway:
        """Start a gateway that ends with the stack."""
        file.write()
        self._say(f"policy file: {file.path}\n\n{file.text()}")
        gateway = Gateway(file, file.admin_port, file.path.with_name(GATEWAY_LOG))
        self._say(f"$ sluicegate run -c {file.path}")
        return await stack.enter_async_context(gateway)

    # -- the scenes that share a gateway -------------------------------------------------------------

    async def shared(self, chosen: Mapping[str, Sequence[Scene]]) -> list[Played]:
        """Play the scenes that share one gateway, in groups that the machine can handle."""
        file = PolicyFile(self._directory / "gateway.yaml", self._directory / "state", free_ports(1))
        backends: dict[str, Child] = {}
        async with AsyncExitStack() as stack:
            for system, scenes in chosen.items():
                backend, backends[system] = await self.backend(stack, system)
                file.add(system, self._demos[system], backend, scenes)
                self.notes[system] = backend.notes
            setup = _Setup(await self.gateway(stack, file), self.players, backends, self._patience_s)
            for system in chosen:
                self._say(
                    f"gateway up: {system} clients connect to {file.address(system)}; "
                    f"they are {self._demos[system].client}"
                )
            played = await self._in_groups(setup, chosen)
            again = [each for each in played if each.observation.verdict is Verdict.UNSATURATED]
            for each in again:
                self._say(f"{each.system}: {each.scene.name} once more, alone, as it was not saturated")
                [alone] = await self._group(setup, {each.system: [each.scene]}, attempt=2)
                played[played.index(each)] = alone
            self.rows += await setup.rows()
        return played

    async def _in_groups(self, setup: _Setup, chosen: Mapping[str, Sequence[Scene]]) -> list[Played]:
        weighted = [(scene.weight, (system, scene)) for system, scenes in chosen.items() for scene in scenes]
        split = list(groups(weighted, capacity()))
        played: list[Played] = []
        for number, group in enumerate(split, 1):
            self._say(f"playing {len(group)} scenes side by side (group {number} of {len(split)})")
            scenes: dict[str, list[Scene]] = {}
            for system, scene in group:
                scenes.setdefault(system, []).append(scene)
            played += await self._group(setup, scenes)
        return played

    async def _group(
        self, setup: _Setup, scenes: Mapping[str, Sequence[Scene]], attempt: int = 1
    ) -> list[Played]:
        async def play(system: str) -> dict[str, _Timed]:
            try:
                return await setup.play(system, scenes[system], attempt)
            except ChildError as error:
                lost = Seen(False, "the scene could not be played", str(error))
                return {scene.name: (lost, 0.0) for scene in scenes[system]}

        observed = dict(zip(scenes, await asyncio.gather(*(play(system) for system in scenes)), strict=True))
        rows = await setup.rows()
        return [
            self._judged(system, scene, observed[system][scene.name], rows, setup.policies)
            for system in scenes
            for scene in scenes[system]
        ]

    def _judged(
        self,
        system: str,
        scene: Scene,
        timed: _Timed,
        rows: Iterable[Row],
        policies: Mapping[str, Any],
    ) -> Played:
        seen, seconds = timed
        of_topic = TopicLog(row for row in rows if row["system"] == system and row["topic"] == scene.topic)
        # A scene that failed has no facts to judge.
        can_judge = seen.met or seen.facts
        observation = (
            scene.judge(seen, of_topic)
            if can_judge
            else Observation(Verdict.DIFFERENT, seen.text, seen.error)
        )
        self._say(f"{observation.verdict.value:10}  {seconds:4.1f} s  {system}: {scene.name}")
        return Played(system, scene, observation, seconds, policies)

    # -- scenes with their own gateway ---------------------------------------------------------------

    async def alone(self, system: str, scene: Scene) -> Played:
        """Play a scene with its own backend and gateway."""
        assert scene.own is not None  # noqa: S101 - the caller's choice
        directory = self._directory / f"{system}-{scene.name}"
        directory.mkdir()
        own = scene.own(directory)
        self._say(f"\nfor {system}: {scene.name} one more backend and one more gateway")
        file = PolicyFile(directory / "gateway.yaml", directory / "state", free_ports(1), own.policies)
        async with AsyncExitStack() as stack:
            backend, child = await self.backend(stack, system)
            entry = Backend({**backend.entry, **own.entry}, backend.notes)
            file.add(system, self._demos[system], entry, [scene], directory.name)
            gateway = await self.gateway(stack, file)
            names = {system: directory.name}
            setup = _Setup(gateway, self.players, {system: child}, self._patience_s, own.policies, names)
            [played] = await self._group(setup, {system: [scene]})
            self.rows += await setup.rows()
        return played


async def run_demo(
    demos: Mapping[str, BrokerDemo],
    directory: Path,
    say: Say,
    only: frozenset[str] = frozenset(),
    patience_s: float = PATIENCE_S,
) -> Outcome:
    """Play all scenes.

    :param demos: the demo of each kind of broker, by system.
    :param directory: existing directory for policy files, logs and decision logs.
    :param say: prints a line of progress.
    :param only: names of scenes; all of them if empty.
    :param patience_s: how long a scene waits for an expected event.
    :raises GatewayError: if a gateway does not start, for instance because a plugin is missing.
    :raises ChildError: if a backend does not start.
    :raises OSError: if there is no free port, or a file cannot be written.
    """
    began = time.monotonic()
    demo = _Demo(demos, directory, say, patience_s)
    chosen = {
        system: [scene for scene in shown.scenes if not only or scene.name in only]
        for system, shown in demos.items()
    }
    together = {
        system: common
        for system, scenes in chosen.items()
        if (common := [scene for scene in scenes if scene.own is None])
    }
    alone = [
        (system, scene) for system, scenes in chosen.items() for scene in scenes if scene.own is not None
    ]
    async with AsyncExitStack() as stack:
        await demo.start_players(stack)
        played = await demo.shared(together) if together else []
        for system, scene in alone:
            played.append(await demo.alone(system, scene))
    demo.rows.sort(key=lambda row: row["time"])
    file = directory / "gateway.yaml"
    if not together:
        file = directory / f"{alone[0][0]}-{alone[0][1].name}" / "gateway.yaml"
    return Outcome(directory, file, tuple(played), demo.rows, demo.notes, time.monotonic() - began)
