"""Plays the cells of one system: gates in this process, clients in processes of their own."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.matrix.cells import SEVERAL, Cell, broker_only
from tests.matrix.programs import Program, spread
from tests.rows import rows_with
from tests.waiting import until_so

from sluicegate.decisions.reading import read_decisions
from sluicegate.demo.backend import demo_of
from sluicegate.demo.clients import DemoClient
from sluicegate.demo.grouping import capacity, groups
from sluicegate.demo.policy_file import PolicyFile
from sluicegate.demo.ports import free_ports
from sluicegate.demo.scene import Backend, Observation, OwnGateway, Scene, Seen, Verdict
from sluicegate.demo.topic_log import TopicLog
from sluicegate.processes.in_process import EmbeddedGateway

_PATIENCE_S = 120.0
"""How long a scene waits for each thing that has to come; it ends only what never comes."""
_LONGEST_S = 5 * _PATIENCE_S


@dataclass(frozen=True, slots=True)
class Family:
    """One client library."""

    argv: Callable[[], Sequence[str]]
    """Gives the command of a process of it (`programs`); called once its cells are played."""
    several: int
    """Processes where there are several; their clients go to them in turn."""
    missing: str | None = None
    """What its cells cannot be played without, in words; None if all is there."""


@dataclass(frozen=True, slots=True)
class System:
    """One real or reference broker with its clients."""

    name: str
    entry: Callable[[], Mapping[str, Any]]
    """What `brokers:` says of one more gateway in front of it, with ports of its own."""
    topic: Callable[[str], str]
    """The full name of a topic."""
    families: Mapping[str, Family]
    prepare: Callable[[Mapping[str, int]], object] = lambda partitions: None
    """Makes topics, by name with their partitions, where the system does not by itself."""


@dataclass(slots=True)
class _Stage:
    """What a scene finds (`sluicegate.demo.Stage`)."""

    topic: str
    directory: Path
    policies: Mapping[str, Any]
    programs: Sequence[Program]
    address: str
    attempt: int = 1
    patience_s: float = _PATIENCE_S

    def clients(self) -> AbstractAsyncContextManager[DemoClient]:
        return spread(self.programs, self.address)

    async def metric(self, name: str) -> float | None:
        raise NotImplementedError("scenes of the matrix ask for no metric")

    async def act(self, action: str) -> Mapping[str, Any]:
        raise NotImplementedError("scenes of the matrix ask nothing of a backend")

    def change_policy(self, settings: Mapping[str, Any]) -> None:
        raise NotImplementedError("scenes of the matrix change no policy")


@dataclass(slots=True)
class _Gateway:
    """A gateway with the scenes that are played at it."""

    own: OwnGateway
    directory: Path
    scenes: dict[Cell, Scene] = field(default_factory=dict)
    running: EmbeddedGateway | None = None

    @property
    def address(self) -> str:
        """Where clients connect."""
        assert self.running is not None
        host, port = self.running.address()
        return f"{host}:{port}"

    def undecided(self) -> int:
        """Decisions that are not in the log yet."""
        assert self.running is not None
        (snapshot,) = self.running.snapshot()
        log = snapshot["decision_log"]
        return int(log["decided"] - log["emitted"] - log["dropped"])

    def decisions(self) -> pa.Table:
        """The decision log."""
        return read_decisions(self.directory / "state" / "decisions")


class Matrix:
    """The cells of one system, played when the first of their family and kind of process is asked for.

    An asynchronous context manager: its gates serve within the block.

    :param system: the broker and its clients.
    :param cells: what is to be played.
    :param directory: an empty one for files, logs and state.
    """

    def __init__(self, system: System, cells: Iterable[Cell], directory: Path) -> None:
        self._system, self._directory = system, directory
        self._gateways: dict[str, _Gateway] = {}
        self._found: dict[Cell, Observation] = {}
        self._stack = AsyncExitStack()
        for cell in cells:
            self._place(cell)

    def _place(self, cell: Cell) -> None:
        scene = cell.shown.scene(self._system.topic(cell.name))
        policy = cell.shown.policy
        name = policy if policy in broker_only() else "topics"
        if name not in self._gateways:
            directory = self._directory / name
            directory.mkdir()
            own = OwnGateway() if name == "topics" else OwnGateway(policies=scene.settings)
            self._gateways[name] = _Gateway(scene.own(directory) if scene.own else own, directory)
        settings = scene.settings if name == "topics" else {}
        self._gateways[name].scenes[cell] = replace(scene, settings=settings)

    async def __aenter__(self) -> "Matrix":
        """Make the topics and start the gateways."""
        partitions = {
            scene.topic: cell.shown.partitions
            for gateway in self._gateways.values()
            for cell, scene in gateway.scenes.items()
        }
        await asyncio.to_thread(self._system.prepare, partitions)
        for gateway in self._gateways.values():
            gateway.running = await self._stack.enter_async_context(self._embedded(gateway))
        return self

    async def __aexit__(self, *error: object) -> None:
        """End the gateways."""
        await self._stack.aclose()

    def _embedded(self, gateway: _Gateway) -> EmbeddedGateway:
        policies = gateway.own.policies
        file = PolicyFile(
            gateway.directory / "gateway.yaml", gateway.directory / "state", free_ports(1), policies
        )
        demo = demo_of(self._system.name)
        backend = Backend({**self._system.entry(), **gateway.own.entry})
        file.add(self._system.name, demo, backend, gateway.scenes.values())
        file.write()
        return EmbeddedGateway.from_file(file.path)

    def missing(self, cell: Cell) -> str | None:
        """What a cell cannot be played without, in words; None if all is there."""
        return self._system.families[cell.family].missing

    async def observe(self, cell: Cell) -> Observation:
        """What came of a cell; the first one plays all that need the same processes."""
        if cell not in self._found:
            alike = [
                each
                for gateway in self._gateways.values()
                for each in gateway.scenes
                if (each.family, each.where) == (cell.family, cell.where)
            ]
            async with AsyncExitStack() as stack:
                programs = await self._programs(stack, cell)
                for group in groups(((self._scene(each).weight, each) for each in alike), capacity()):
                    await self._play(group, programs, attempt=1)
                for each in alike:
                    if self._found[each].verdict is Verdict.UNSATURATED:
                        await self._play([each], programs, attempt=2)
        return self._found[cell]

    async def _programs(self, stack: AsyncExitStack, cell: Cell) -> list[Program]:
        family = self._system.families[cell.family]
        names = [
            f"{cell.family}-{cell.where.split()[0]}-{number}"
            for number in range(family.several if cell.where == SEVERAL else 1)
        ]
        argv = await asyncio.to_thread(family.argv)
        starting = [Program(name, argv, self._directory / f"{name}.log") for name in names]
        return list(await asyncio.gather(*(stack.enter_async_context(each) for each in starting)))

    async def _play(self, cells: Sequence[Cell], programs: Sequence[Program], attempt: int) -> None:
        seen = await asyncio.gather(*(self._seen(cell, programs, attempt) for cell in cells))
        logs: dict[int, pa.Table] = {}
        for gateway in {id(gateway): gateway for gateway in map(self._gateway, cells)}.values():
            await until_so(lambda: gateway.undecided() == 0)  # noqa: B023 - used at once
            logs[id(gateway)] = gateway.decisions()  # once for all cells: there are thousands
        for cell, each in zip(cells, seen, strict=True):
            scene, log = self._scene(cell), logs[id(self._gateway(cell))]
            # What failed has no facts to judge.
            if each.met or each.facts:
                rows = rows_with(log, {"topic": scene.topic})
                self._found[cell] = scene.judge(each, TopicLog(rows))
            else:
                self._found[cell] = Observation(Verdict.DIFFERENT, each.text, each.error)

    async def _seen(self, cell: Cell, programs: Sequence[Program], attempt: int) -> Seen:
        gateway, scene = self._gateway(cell), self._scene(cell)
        own = gateway.own.policies
        stage = _Stage(scene.topic, gateway.directory, own, programs, gateway.address, attempt)
        try:
            async with asyncio.timeout(_LONGEST_S):
                return await scene.play(stage)
        except TimeoutError:
            return Seen(False, f"not over after {_LONGEST_S:.0f} s")
        except Exception as error:  # noqa: BLE001 - told by the cell's test; the other cells go on
            return Seen(False, "the scene could not be played", f"{type(error).__name__}: {error}")

    def _gateway(self, cell: Cell) -> _Gateway:
        return next(gateway for gateway in self._gateways.values() if cell in gateway.scenes)

    def _scene(self, cell: Cell) -> Scene:
        return self._gateway(cell).scenes[cell]
