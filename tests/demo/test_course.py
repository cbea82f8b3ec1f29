"""What changes over time: measured as it was, drawn so that it can be read, the volume left as it was."""

import asyncio
import os
from pathlib import Path

import pytest

from sluicegate.demo.course import Chart, Course, NeverCameError, Rates, Sample
from sluicegate.demo.drawing import draw
from sluicegate.demo.volume import Ballast, FreeLimits, free_bytes

MIB = 1 << 20


async def test_a_rate_is_what_was_counted_over_the_time() -> None:
    course = Course(lambda: (50.0, "open"))

    async def publish() -> None:
        while True:
            course.acknowledged += 10
            await asyncio.sleep(0.01)

    publishing = asyncio.ensure_future(publish())
    before = course.acknowledged
    found = await course.over(0.2)
    publishing.cancel()
    assert found.allowed == 50
    assert 0 < found.admitted <= (course.acknowledged - before) / 0.2


async def test_a_slow_client_is_measured_again() -> None:
    paces = iter((1, 1, 9, 99))

    class Paced(Course):
        async def over(self, seconds: float) -> Rates:
            return Rates(next(paces), 10)

    assert (await Paced(lambda: (1.0, "open")).at_least(8, 1.0)).admitted == 9
    paces = iter((1, 2, 3, 4, 99))
    assert (await Paced(lambda: (1.0, "open")).at_least(8, 1.0)).admitted == 4


async def test_samples_are_taken_only_while_it_is_watched() -> None:
    states = iter(["open", *["pause"] * 100])
    course = Course(lambda: (1.0, next(states)))
    async with course.watched():
        await course.until(lambda: len(course.samples) >= 2, "two samples")
    taken = len(course.samples)
    await asyncio.sleep(0.15)
    assert len(course.samples) == taken
    assert [sample.state for sample in course.samples[:2]] == ["open", "pause"]
    assert 0 < course.samples[0].at < course.samples[1].at


async def test_what_does_not_come_is_named() -> None:
    course = Course(lambda: (1.0, "open"))
    with pytest.raises(NeverCameError, match="a miracle did not come within 0 s"):
        await course.until(lambda: False, "a miracle", 0.05)
    assert await course.until(lambda: True, "it") < 0.05


def test_rates_are_near_each_other_on_both_sides() -> None:
    assert Rates(81, 100).near(0.2)
    assert not Rates(79, 100).near(0.2)
    assert not Rates(121, 100).near(0.2)
    assert Rates(0, 0).near(0.2)
    assert not Rates(1, 0).near(0.2)


STEPS = ((400.0, 400.0, "open"), (200.0, 200.0, "throttle"), (0.0, 0.0, "pause"), (100.0, 400.0, "open"))
CHART = Chart("A volume fills", tuple(Sample(at / 5, *STEPS[at // 20]) for at in range(80)))


def test_a_chart_has_bars_a_line_and_the_states_below() -> None:
    lines = [line.plain for line in draw(CHART, 72, plain=True)]
    assert lines[0] == "A volume fills"
    rows = [line[9:] for line in lines[1:9]]
    # All that is open reaches the top, half of it the middle, nothing the ground.
    assert [row[2] for row in rows] == list("=#######")
    assert [row[20] for row in rows] == list("    =###")
    assert [row[35] for row in rows] == list("       =")
    assert [row[55] for row in rows] == list("=     ##")
    assert [lines[row].split("|")[0].strip() for row in (1, 3, 5, 7)] == ["400", "300", "200", "100"]
    assert [word.strip() for word in lines[9].split("|")[1:]] == ["open", "throttle", "pause", "open"]
    assert lines[10].split() == ["0", "s", "15.8", "s"]


@pytest.mark.parametrize("width", [20, 40, 140])
@pytest.mark.parametrize("plain", [True, False])
def test_a_chart_keeps_to_its_width(width: int, plain: bool) -> None:
    lines = [line.plain for line in draw(CHART, width, plain)][1:]
    assert max(map(len, lines)) <= min(width, 82)
    assert all(line.isascii() for line in lines) is plain


def test_nothing_is_drawn_of_nothing_and_zero_is_no_error() -> None:
    assert list(draw(Chart("empty", ()), 80, plain=True)) == []
    still = Chart("still", (Sample(0.1, 0.0, 0.0, "pause"),))
    assert len(list(draw(still, 80, plain=True))) == 11


def test_limits_stand_for_factors() -> None:
    limits = FreeLimits(soft=200, hard=100)
    assert [limits.at(factor) for factor in (1.0, 0.25, 0.0, -0.2)] == [200, 125, 100, 80]


def test_limits_are_below_what_is_free_and_fit_a_small_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for free, step in ((10_000 * MIB, 64 * MIB), (80 * MIB, 10 * MIB)):
        monkeypatch.setattr("sluicegate.demo.volume.free_bytes", lambda directory, free=free: free)
        assert FreeLimits.below(tmp_path) == FreeLimits(free - step, free - 2 * step)


@pytest.mark.parametrize("has_fallocate", [True, False])
def test_ballast_takes_real_room_and_gives_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_fallocate: bool
) -> None:
    if not has_fallocate:
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    before = free_bytes(tmp_path)
    ballast = Ballast(tmp_path)
    assert ballast.leave(2 * before) == 0
    written = ballast.leave(free_bytes(tmp_path) - 4 * MIB)
    written += ballast.leave(free_bytes(tmp_path) - 4 * MIB)
    [file] = tmp_path.iterdir()
    assert file.stat().st_blocks * 512 >= written >= 7 * MIB  # no holes
    ballast.remove()
    ballast.remove()
    assert list(tmp_path.iterdir()) == []
