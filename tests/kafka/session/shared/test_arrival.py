"""Arrival times of records: correct bounds in bounded memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.engine.delivery_time import UNKNOWN
from sluicegate_kafka.session.shared import arrival
from sluicegate_kafka.session.shared.arrival import Arrival, Arrivals

AT = ("t", 0)
NOW = 1_000_000
HOUR_MS = 3_600_000


def test_an_unseen_record_arrives_now() -> None:
    assert Arrivals().of(AT, 5, NOW) == Arrival(UNKNOWN, NOW)


def test_an_acknowledged_batch_arrived_between_its_request_and_its_response() -> None:
    arrivals = Arrivals()
    arrivals.note(AT, 10, 13, NOW, NOW + 20, HOUR_MS)
    assert arrivals.of(AT, 10, NOW + 500) == arrivals.of(AT, 12, NOW + 500) == Arrival(NOW, NOW + 20)
    assert arrivals.of(AT, 9, NOW + 500) == Arrival(UNKNOWN, NOW + 20)
    assert arrivals.of(AT, 13, NOW + 500) == Arrival(UNKNOWN, NOW + 500)


def test_a_high_watermark_bounds_what_arrived_since_the_one_before() -> None:
    arrivals = Arrivals()
    arrivals.note(AT, 10, 10, NOW, NOW + 500, HOUR_MS)
    arrivals.note(AT, 10, 10, NOW + 500, NOW + 1_000, HOUR_MS)
    arrivals.note(AT, 12, 12, NOW + 1_000, NOW + 1_400, HOUR_MS)
    assert arrivals.of(AT, 10, NOW + 9_000) == Arrival(NOW + 500, NOW + 1_400)
    assert arrivals.of(AT, 9, NOW + 9_000) == Arrival(UNKNOWN, NOW + 500)


@given(
    st.lists(st.tuples(st.integers(0, 400), st.sampled_from("pdf"), st.integers(1, 5))),
    st.sampled_from([50, 1_000, HOUR_MS]),
)
def test_every_record_arrived_within_its_bounds(events: list[tuple[int, str, int]], delay_ms: int) -> None:
    """Batches come through the gateway (p) or another way (d), and consumers fetch (f)."""
    arrivals, now, arrived = Arrivals(), NOW, list[int]()
    for pause, kind, records in events:
        now += pause
        if kind != "f":
            start = len(arrived)
            arrived += [now + 1] * records
            if kind == "p":
                arrivals.note(AT, start, start + records, now, now + 2, delay_ms)
        else:
            arrivals.note(AT, len(arrived), len(arrived), now, now + 2, delay_ms)
        now += 3
    for offset, at in enumerate(arrived):
        after, by = arrivals.of(AT, offset, now)
        assert after <= at <= by


@pytest.mark.parametrize("through_gate", [True, False])
def test_the_number_of_marks_is_bounded_by_the_parts_of_a_delay(through_gate: bool) -> None:
    arrivals = Arrivals()
    for number in range(20_000):
        now = NOW + number
        arrivals.note(AT, number if through_gate else number + 1, number + 1, now, now, 5_000)
    (partition,) = arrivals._partitions.values()
    assert len(partition.marks) <= 5_000 // 4 + 2
    after, by = arrivals.of(AT, 19_000, NOW + 20_000)
    assert after <= NOW + 19_000 <= by <= NOW + 19_000 + 4


@pytest.mark.parametrize("bound", ["MAX_PARTITIONS", "MAX_MARKS"])
def test_beyond_the_bound_the_first_partition_is_new_again(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrival, bound, 3)
    arrivals = Arrivals()
    for partition in range(10):
        arrivals.note(("t", partition), 5, 5, NOW, NOW, HOUR_MS)
    assert len(arrivals._partitions) == arrivals._marks == 3
    assert arrivals.of(("t", 0), 0, NOW + 9) == Arrival(UNKNOWN, NOW + 9)
    assert arrivals.of(("t", 9), 0, NOW + 9) == Arrival(UNKNOWN, NOW)


def test_a_recreated_log_replaces_the_former_one() -> None:
    arrivals = Arrivals()
    arrivals.note(AT, 10, 20, NOW, NOW + 5, HOUR_MS)
    arrivals.note(AT, 0, 2, NOW + 100, NOW + 105, HOUR_MS)
    assert arrivals.of(AT, 0, NOW + 200) == Arrival(NOW + 100, NOW + 105)
    assert arrivals.of(AT, 15, NOW + 200) == Arrival(UNKNOWN, NOW + 200)


def test_responses_out_of_order_are_of_the_same_log() -> None:
    arrivals = Arrivals()
    arrivals.note(AT, 10, 20, NOW, NOW + 50, HOUR_MS)
    arrivals.note(AT, 0, 10, NOW, NOW + 60, HOUR_MS)
    assert arrivals.of(AT, 15, NOW + 200) == Arrival(NOW, NOW + 50)
    assert arrivals.of(AT, 5, NOW + 200).by_ms == NOW + 50
