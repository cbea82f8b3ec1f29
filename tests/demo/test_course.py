"""What changes over time: measured as it was, drawn so that it can be read, the volume left as it was."""

import os
from pathlib import Path

import pytest
from tests.demo.scenes import BEGAN_S, log, row

from sluicegate.demo import volume
from sluicegate.demo.course import Chart, Sample, chart
from sluicegate.demo.drawing import draw
from sluicegate.demo.volume import Ballast, FreeLimits

MIB = 1 << 20


def test_a_chart_is_taken_from_the_decision_log() -> None:
    rows = [row(n / 100) for n in range(100)]  # 100/s for a second, then 20/s, held at 50/s
    rows += [row(1 + n / 20) for n in range(20)]
    rows += [
        row(at, "delay", "publish_quota", limit=limit, delay=1) for at, limit in ((1.05, 50.0), (1.5, 25.0))
    ]
    found = chart("it", log(rows), BEGAN_S, BEGAN_S + 2.05, 80.0, lambda row: f"at {row['limit']:.0f}")
    at = {round(sample.at, 1): sample for sample in found.samples}
    assert len(at) == 20
    assert at[0.9].admitted == pytest.approx(100, abs=4)
    assert at[1.9].admitted == pytest.approx(20, abs=4)
    assert [(at[s].allowed, at[s].state) for s in (0.9, 1.2, 1.9)] == [
        (80.0, "free"),
        (50.0, "at 50"),
        (25.0, "at 25"),
    ]


def test_a_topic_without_held_messages_is_free_again() -> None:
    rows = [row(0.1, "delay", "p", limit=5.0, delay=1)]
    found = chart("it", log(rows), BEGAN_S, BEGAN_S + 3, 80.0, lambda row: "held", free_after_s=1.0)
    states = [(sample.state, sample.allowed) for sample in found.samples]
    assert states[5] == ("held", 5.0)
    assert states[-1] == ("free", 80.0)


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
    ballast = Ballast(tmp_path)

    def free_bytes(_directory: Path) -> int:
        return 100 * MIB - ballast.size

    monkeypatch.setattr(volume, "free_bytes", free_bytes)  # other programs fill the real volume, too
    ballast.leave(200 * MIB)
    assert ballast.size == 0
    for least in (96, 92):
        ballast.leave(least * MIB)
    [file] = tmp_path.iterdir()
    assert file.stat().st_blocks * 512 >= ballast.size >= 7 * MIB  # no holes
    before = ballast.size
    ballast.leave(95 * MIB)
    assert ballast.size < before
    ballast.remove()
    ballast.remove()
    assert list(tmp_path.iterdir()) == []
