"""When a delayed message is due."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.engine.delivery_time import _MAX_FIRST_SEEN, DelayRule, FirstSeen, asked_ms, due_ms

HOUR_MS = 3_600_000


def test_counts_from_the_publish_time() -> None:
    assert due_ms(DelayRule(5_000), 1_000_000, 1_003_000) == 1_005_000


def test_counts_from_first_sight_if_asked_to() -> None:
    assert due_ms(DelayRule(5_000, clock="receive_time"), 1_000_000, 1_003_000) == 1_008_000


@pytest.mark.parametrize("timestamp", [-1, 1_000_000 + HOUR_MS + 1, 2**62])
def test_an_unbelievable_time_stamp_is_due_at_first_sight_and_the_delay(timestamp: int) -> None:
    assert due_ms(DelayRule(5_000, HOUR_MS), timestamp, 1_000_000) == 1_005_000


def test_a_clock_somewhat_ahead_is_believed() -> None:
    assert due_ms(DelayRule(5_000, HOUR_MS), 1_000_000 + HOUR_MS, 1_000_000) == 1_005_000 + HOUR_MS


def test_a_time_stamp_from_before_its_arrival_is_believed_within_the_tolerance() -> None:
    rule = DelayRule(5_000, max_behind_ms=60_000)
    assert due_ms(rule, 940_000, 1_000_000, 1_000_000) == 945_000
    assert due_ms(rule, 939_999, 1_000_000, 1_000_000) == 1_005_000


def test_a_message_stored_at_an_unknown_time_may_have_any_time_stamp() -> None:
    assert due_ms(DelayRule(5_000), 1, 1_000_000) == 5_001
    assert due_ms(DelayRule(5_000), 0, 1_000_000) == 5_000


@given(st.integers(1, 10**9), st.integers(0, 10**13), st.integers(0, 10**13))
def test_never_early_and_never_blocked_for_long(fixed: int, timestamp: int, seen: int) -> None:
    due = due_ms(DelayRule(fixed, HOUR_MS), timestamp, seen)

    assert due >= min(timestamp, seen) + fixed
    assert due <= seen + HOUR_MS + fixed


@pytest.mark.seed("S2-025")
@pytest.mark.parametrize(
    ("deliver_at", "asked"),
    [(1_000_000, 0), (999_999, 0), (1_000_001, 1), (0, 0), (-5, 0), (2**63 - 1, 2**63 - 1_000_001)],
)
def test_a_delay_asked_by_a_producer_counts_from_now(deliver_at: int, asked: int) -> None:
    assert asked_ms(deliver_at, 1_000_000) == asked


def test_a_redelivered_message_keeps_its_first_arrival() -> None:
    seen = FirstSeen()

    assert seen.ms(("t", 0, 7), 1_000) == 1_000
    assert seen.ms(("t", 0, 8), 2_000) == 2_000
    assert seen.ms(("t", 0, 7), 3_000) == 1_000


def test_the_oldest_sighting_is_forgotten_when_there_are_too_many() -> None:
    seen = FirstSeen()
    for number in range(_MAX_FIRST_SEEN):
        seen.ms(("t", 0, number), 1_000)
    assert seen.ms(("t", 0, 0), 2_000) == 1_000  # so many are kept

    seen.ms(("t", 0, -1), 2_000)

    assert seen.ms(("t", 0, 1), 3_000) == 1_000
    assert seen.ms(("t", 0, 0), 3_000) == 3_000
