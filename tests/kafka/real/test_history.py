"""The history checker: faults that it must find, and histories that it must accept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kafka.real.support.history import ClientLog, Entry, Stored, judge


def stored_as(entries: list[Entry]) -> list[Stored]:
    return [Stored(0, offset, entry.value + b"   ") for offset, entry in enumerate(entries)]


@given(st.lists(st.sampled_from(["a", "b:c", "d"]), max_size=30), st.data())
def test_any_interleaving_of_lanes_is_clean(lanes: list[str], data: st.DataObject) -> None:
    log = ClientLog()
    for number, lane in enumerate(lanes):
        log.ack(log.send(lane, number))
    stored = sorted(log.sent, key=lambda entry: (entry.lane, entry.number))
    if data.draw(st.booleans()):
        stored = log.sent
    judge(log, stored_as(stored)).assert_clean()


def test_unanswered_sends_may_be_stored_or_not() -> None:
    log = ClientLog()
    first, second = log.send("a", 0), log.send("a", 1)
    assert log.unanswered == [first, second]
    judge(log, stored_as([second])).assert_clean()


def test_a_confirmed_offset_must_match_the_log() -> None:
    log = ClientLog()
    entry = log.send("a", 0)
    log.ack(entry, 0, 7)
    assert judge(log, stored_as([entry])).counts == {"misplaced": 1}


def test_comparison_with_the_direct_run_names_regressions() -> None:
    log = ClientLog()
    first, second = log.send("a", 0), log.send("a", 1)
    twice, clean = judge(log, stored_as([first, second, second])), judge(log, stored_as([first, second]))
    clean.assert_no_worse_than(twice)
    twice.assert_no_worse_than(twice)
    with pytest.raises(AssertionError, match=r"duplicated.*\(1, 0\)"):
        twice.assert_no_worse_than(clean)


def test_later_number_first_is_out_of_order_but_a_late_second_copy_is_only_a_duplicate() -> None:
    log = ClientLog()
    first, second = log.send("a", 0), log.send("a", 1)
    assert judge(log, stored_as([second, first])).counts == {"reordered": 1}
    assert judge(log, stored_as([first, second, first])).counts == {"duplicated": 1}
