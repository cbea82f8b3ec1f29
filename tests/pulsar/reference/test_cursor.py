"""Acknowledgements, against a plain set of numbers."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate_pulsar.reference.cursor import Cursor

SIZE = 12
steps = st.lists(
    st.tuples(st.sampled_from(["single", "upto", "seek"]), st.integers(0, SIZE - 1)), max_size=40
)


@settings(deadline=None)
@given(st.integers(0, SIZE), steps)
def test_records_acknowledged_positions(first: int, done: list[tuple[str, int]]) -> None:
    cursor = Cursor(first)
    acknowledged = set(range(first))
    for step, number in done:
        if step == "single":
            cursor.acknowledge([number])
            acknowledged.add(number)
        elif step == "upto":
            cursor.acknowledge_upto(number)
            acknowledged.update(range(number + 1))
        else:
            cursor.seek(number)
            acknowledged = set(range(number))
        assert {each for each in range(SIZE) if cursor.is_acknowledged(each)} == acknowledged
        assert cursor.backlog(SIZE) == SIZE - len(acknowledged)
        assert set(range(cursor.mark_delete + 1)) <= acknowledged
        assert cursor.mark_delete + 1 not in acknowledged


def test_rewinds_to_the_first_gap() -> None:
    cursor = Cursor(0)
    cursor.next = 5
    cursor.acknowledge([0, 1, 3])
    cursor.rewind()
    assert cursor.next == 2
    assert cursor.is_acknowledged(3)


def test_skips_messages_acknowledged_ahead() -> None:
    cursor = Cursor(0)
    cursor.acknowledge_upto(4)
    assert cursor.next == 5
