"""A worker's own memory: actions and log lines at each share of its limit."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.gateway.echo_plugin import LineSession
from tests.gateway.lab import lab, on_uvloop, upstream

from sluicegate.config.overload import OverloadConfig
from sluicegate.engine.budget import Budget
from sluicegate.features.pressure.process import ProcessError, ProcessMemory
from sluicegate.processes import overload
from sluicegate.processes.overload import CLOSING, NORMAL, NOT_ACCEPTING, SHRINKING, Overload

LIMIT = 1000


@pytest.fixture
def resident(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The resident memory that a worker finds; the last entry counts."""
    found = [0]

    async def usage(self: ProcessMemory) -> tuple[int, int]:
        return found[-1], LIMIT

    monkeypatch.setattr(ProcessMemory, "usage", usage)
    monkeypatch.setattr(overload, "_give_back_free_memory", lambda: None)
    return found


def test_levels_follow_memory_usage(resident: list[int]) -> None:
    @on_uvloop
    async def play() -> None:
        dropped: list[int] = []
        budget = Budget(800)

        def drop_idle() -> Iterator[None]:
            dropped.append(1)
            yield

        watched = Overload(OverloadConfig(), budget, drop_idle)
        levels = []
        async with lab() as it:
            for memory in (500, 800, 780, 769, 850, 949, 950, 930, 919, 830, 819, 0):
                resident.append(memory)
                await watched.look(it.connections)
                levels.append((watched.level, bool(it.connections.refusal("a")), budget.limit))
        normal, full = (NORMAL, False, 800), (NOT_ACCEPTING, True, 800)
        shrinking, closing = (SHRINKING, True, 400), (CLOSING, True, 400)
        assert levels == [
            *(normal, full, full, normal),
            *(shrinking, shrinking, closing, closing, shrinking, shrinking, full, normal),
        ]
        assert len(dropped) == 6
        assert watched.gauges()["overload_memory_limit_bytes"] == LIMIT

    play()


def test_the_largest_client_is_closed_while_memory_is_short(resident: list[int]) -> None:
    @on_uvloop
    async def play() -> None:
        async with upstream() as port, lab(port) as it:
            small, large = await it.connect(), await it.connect()
            for (reader, writer), rest in ((small, b"ab"), (large, b"abc")):
                writer.write(b"hello\n" + rest)
                assert await reader.readline() == b"hello\n"
            resident.append(950)
            await Overload(OverloadConfig(), Budget(0), lambda: iter(())).look(it.connections)
            await it.until(lambda: len(it.connections) == 1)
            assert it.counts["overload_closed"] == 1
            small[1].write(b"\n")
            assert await small[0].readline() == b"ab\n"

    play()


def test_places_count_where_memory_is_short(resident: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def places_bytes(session: LineSession) -> int:
        return 1_000_000 if session.rest == b"ab" else 0

    monkeypatch.setattr(LineSession, "places_bytes", property(places_bytes), raising=False)

    @on_uvloop
    async def play() -> None:
        async with upstream() as port, lab(port) as it:
            places, buffers = await it.connect(), await it.connect()
            for (reader, writer), rest in ((places, b"ab"), (buffers, b"abc")):
                writer.write(b"hello\n" + rest)
                assert await reader.readline() == b"hello\n"
            resident.append(950)
            await Overload(OverloadConfig(), Budget(0), lambda: iter(())).look(it.connections)
            await it.until(lambda: len(it.connections) == 1)
            buffers[1].write(b"\n")
            assert await buffers[0].readline() == b"abc\n"

    play()


def test_nothing_is_shed_if_memory_usage_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def usage(self: ProcessMemory) -> tuple[int, int]:
        raise ProcessError("no such thing here")

    monkeypatch.setattr(ProcessMemory, "usage", usage)

    @on_uvloop
    async def play() -> None:
        async with lab() as it:
            watched = Overload(OverloadConfig(), Budget(0), lambda: iter(()))
            await watched.look(it.connections)
            assert watched.level == NORMAL

    play()


def test_reads_the_memory_of_this_process() -> None:
    resident, limit = asyncio.run(ProcessMemory(limit=2**40).usage())
    assert Path("/proc/self/statm").exists() <= (10_000_000 < resident < limit)


def test_thresholds_are_ascending() -> None:
    with pytest.raises(ValidationError, match="are not in order"):
        OverloadConfig(stop_accepting=0.9)
    with pytest.raises(ValidationError):
        OverloadConfig(close=1.5)
