"""What one worker saw of records' arrivals, another one knows: none is early, and none much later."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.engine.delivery_time import UNKNOWN
from sluicegate_kafka.session.shared.arrival import Arrivals
from sluicegate_kafka.session.shared.told_arrivals import ToldArrivals, heard

AT = ("topic", 0)
DELAY_MS = 600_000
BATCH_MS = 50


class Pair:
    """Two workers, and one that sees all itself."""

    def __init__(self) -> None:
        self.alone, self.other = Arrivals(), Arrivals()
        self.own = Arrivals()
        self.messages: list[dict[str, Any]] = []
        self.due = 0
        self.told = ToldArrivals(self.own, self._soon, lambda kind, content: self._tell(content))

    def _soon(self) -> None:
        self.due += 1

    def _tell(self, content: Any) -> None:
        self.messages.append(json.loads(json.dumps(content)))

    def see(self, start: int, end: int, asked_ms: int, now_ms: int) -> None:
        for each in (self.own, self.alone):
            each.note(AT, start, end, asked_ms, now_ms, DELAY_MS)

    def deliver(self, now_ms: int) -> None:
        self.told.flush()
        for each in self.messages:
            heard(self.other, each["seen"], now_ms)
        self.messages.clear()


def test_a_batch_is_one_observation_where_one_follows_the_other() -> None:
    pair = Pair()
    for offset in range(10):
        pair.see(offset, offset + 1, 1_000 + offset, 1_001 + offset)
        pair.see(offset + 1, offset + 1, 1_000 + offset, 1_001 + offset)
    assert pair.due == 1
    pair.told.flush()
    assert pair.messages == [{"seen": [["topic", 0, 0, 10, 1_000, 1_010, DELAY_MS]]}]


def test_what_was_heard_is_not_told_again() -> None:
    pair = Pair()
    heard(pair.own, [["topic", 0, 0, 5, 1_000, 1_001, DELAY_MS]], 2_000)
    pair.told.flush()
    assert not pair.messages
    assert pair.own.of(AT, 4, 5_000) == (1_000, 1_001)


def test_a_recreated_topic_is_recreated_for_siblings() -> None:
    pair = Pair()
    pair.see(0, 10, 1_000, 1_001)
    pair.deliver(1_050)
    pair.see(0, 10, 2_000, 2_001)
    pair.deliver(2_050)
    assert pair.other.of(AT, 9, 3_000).by_ms == 2_001


def test_what_is_heard_late_counts_as_no_earlier_than_what_was_seen() -> None:
    arrivals = Arrivals()
    arrivals.note(AT, 5, 5, 1_990, 2_000, DELAY_MS)
    heard(arrivals, [["topic", 0, 5, 7, 1_900, 1_950, DELAY_MS]], 2_010)
    assert arrivals.of(AT, 6, 3_000) == (1_900, 2_000)


def test_what_does_not_fit_into_a_batch_counts_from_when_it_is_seen() -> None:
    pair = Pair()
    last = ("topic", 5_000)
    for partition in range(5_001):
        pair.own.note(("topic", partition), 0, 1, 1_000, 1_001, DELAY_MS)
    pair.deliver(1_050)
    assert pair.other.of(("topic", 4_999), 0, 3_000).by_ms == 1_001
    assert pair.other.of(last, 0, 3_000) == (UNKNOWN, 3_000)

    pair.own.note(last, 1, 2, 2_000, 2_001, DELAY_MS)
    pair.deliver(2_050)
    assert pair.other.of(last, 0, 3_000) == (UNKNOWN, 2_001)


_STEP = st.tuples(st.sampled_from(["produce", "fetch"]), st.integers(1, 5), st.integers(0, 30))


@given(st.lists(_STEP, max_size=40), st.integers(0, 20))
def test_no_record_is_early_and_none_later_than_a_batch(
    steps: list[tuple[str, int, int]], begin: int
) -> None:
    pair, end, now_ms, told_ms = Pair(), begin, 10_000, 10_000
    arrived: dict[int, int] = {}
    for kind, count, passed_ms in steps:
        asked_ms, now_ms = now_ms, now_ms + passed_ms
        if kind == "produce":
            arrived |= dict.fromkeys(range(end, end + count), now_ms)
            pair.see(end, end + count, asked_ms, now_ms)
            end += count
        else:
            pair.see(end, end, asked_ms, now_ms)
        if now_ms - told_ms >= BATCH_MS:
            pair.deliver(now_ms)
            told_ms = now_ms
    pair.deliver(now_ms)
    for offset, at_ms in arrived.items():
        after_ms, by_ms = pair.other.of(AT, offset, now_ms)
        alone = pair.alone.of(AT, offset, now_ms)
        assert at_ms <= by_ms <= alone.by_ms + 2 * BATCH_MS
        assert after_ms <= at_ms
        assert alone.after_ms == UNKNOWN or after_ms == UNKNOWN or after_ms <= alone.after_ms
