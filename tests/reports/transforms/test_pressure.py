"""When clients were held back, and which tokens they left unused, on a few rows."""

from typing import Any

import pytest
from tests.reports import frames
from tests.reports.frames import flow, trial

from sluicegate_reports.transforms import lanes, pressure, windows
from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.slots import Slots

S = 1_000_000


def slots_of(rows: list[frames.Row], **changes: Any) -> tuple[dict[str, Slots], Lane]:
    """Slots of a second, and the lane: 10 a second."""
    (lane,) = lanes.lanes([trial("max_dispatch_rate", **changes)])
    return {source: each for (_, source), each in frames.slots(rows, S).items()}, lane


def held_until(until_s: float) -> list[frames.Row]:
    """Held from 1.0 s on; a message at 2.0 s and at 6.0 s."""
    return [flow(1.0, 1, "held", until_us=round(until_s * S)), flow(2.0), flow(6.0)]


def worst(rows: list[frames.Row]) -> dict[str, Any]:
    sums, lane = slots_of(rows)
    under = pressure.pressure(sums, lane)
    found = windows.rate_error(sums["log"], lane, 2, windows.spent(sums)["log"], under)
    assert found
    return found


def test_pressure_lasts_until_an_empty_bucket_is_full() -> None:
    found = pressure.pressure(*slots_of(held_until(2.0)))
    assert list(zip(found.idle_us, found.pressed, strict=True))[:5] == [
        (S, False),
        (0, True),
        (S, True),
        (2 * S, False),
        (3 * S, False),
    ]


@pytest.mark.parametrize(("held_until_s", "below", "unused"), [(2.0, 0.0, 0.95), (9.0, -1.0, 0.5)])
def test_demand_that_came_too_late_is_not_an_error(held_until_s: float, below: float, unused: float) -> None:
    # In the window from 2 s to 4 s, 9 are lost and 10 are left in the bucket; 1 was admitted. While the gate
    # holds, nothing is; of the last window only what came after the hold's end, at 9 s, is left.
    found = worst(held_until(held_until_s))
    assert (found["below"], found["unused"]) == (pytest.approx(below), pytest.approx(unused))


def test_a_window_in_which_nothing_could_be_admitted_has_no_error() -> None:
    # No client asks from 2 s to 4 s: the bucket loses 10 tokens and keeps 10, all of this window.
    found = worst([flow(1.0, 1, "held", until_us=2 * S), flow(6.0)])
    assert (found["pressed"], found["below"], found["unused"]) == (1, None, pytest.approx(1.0))


@pytest.mark.parametrize(("saturated", "pressed"), [(True, [1, 2, 5]), (False, [1])])
def test_clients_that_ask_for_less_are_pressed_only_by_what_the_log_tells(
    saturated: bool, pressed: list[int]
) -> None:
    # A full bucket lasts from 1.5 s to 2.5 s; of clients that ask for less a slot counts if it is whole.
    rows = [*held_until(1.5), flow(5.0, 1, "refused", source="clients")]
    found = pressure.pressure(*slots_of(rows, saturated=saturated))
    assert [slot for slot, under in enumerate(found.pressed) if under] == pressed
