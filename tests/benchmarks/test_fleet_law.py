"""What the programs about real fleets conclude from what was noted."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks import fleet_places
from benchmarks.fleet_law import Scene, Seen, report
from benchmarks.harness.fleet_events import Event
from benchmarks.harness.noted import Noted, NotePad

from sluicegate_reports.transforms.packed import Numbers

SCENE = Scene(rate=1_000)
SECOND = 10**9


def seen(sent_ns: Numbers, arrived_ns: Numbers, *events: Event) -> Seen:
    noted = Noted(sent_ns, arrived_ns)
    return Seen(SCENE, noted, noted.arrivals, events, 0.0, 10.0)


def paced(count: int) -> Numbers:
    """So many times, a thousand a second."""
    return np.arange(count, dtype=np.int64) * (SECOND // 1_000)


def test_a_full_burst_and_the_rate_after_it_are_allowed() -> None:
    at = np.concatenate([np.zeros(1_000, np.int64), paced(5_000)[1:]])
    assert all(excess <= 2 for excess in seen(at, at).judged().values())


def test_a_burst_too_much_is_an_excess_in_each_way() -> None:
    at = np.sort(np.concatenate([paced(5_000), np.full(1_100, 3 * SECOND)]))
    judged = seen(at, at).judged()
    assert judged["surely admitted"] == pytest.approx(100, abs=2)
    assert judged["arrivals"] == pytest.approx(101, abs=1)
    assert judged["by decision logs"] == pytest.approx(99, abs=1)  # less what its clock may be off
    assert "MORE" in "\n".join(report(seen(at, at)))


def test_what_was_kept_waiting_on_its_way_is_no_sure_excess() -> None:
    sent = paced(5_000)
    arrived = np.maximum(sent, np.where(sent < 2 * SECOND, 2 * SECOND, 0))
    judged = seen(sent, arrived).judged()
    assert judged["surely admitted"] < 0 < judged["arrivals"]


def test_quiet_seconds_leave_out_what_happened_and_two_seconds_after_it() -> None:
    at = paced(10_000)
    event = Event("a worker is killed", 4.0, 4.5, 0.5)
    assert seen(at, at, event).quiet_uses() == pytest.approx([1] * 5)  # from 2 to 4, and from 7 to 10


def test_a_note_pad_is_read_again(tmp_path: Path) -> None:
    pad = NotePad(tmp_path / "notes")
    pad.message((7_000).to_bytes(8))
    pad.came("a")
    pad.came("b")
    pad.came("a")  # it connects anew before its old connection is gone
    pad.went("a")
    pad.went("b")
    pad.close()
    with (tmp_path / "notes").open("a") as file:
        file.write("m 9 9")  # the rest is not written yet
    noted = Noted.read(tmp_path / "notes")
    assert noted.sent_ns.tolist() == [7_000]
    assert noted.certain.earliest_us[0] == 7
    assert [count for _, count in noted.attached] == [1, 2, 2, 2, 1]


@pytest.mark.parametrize(("most", "back_s", "is_kept"), [(10, 4.0, True), (11, 1.0, False), (10, 4.1, False)])
def test_places_are_judged_by_the_most_and_by_when_they_are_taken_again(
    most: int, back_s: float, is_kept: bool
) -> None:
    assert fleet_places.Seen(fleet_places.Scene(), most, [0.5, back_s]).is_kept is is_kept
