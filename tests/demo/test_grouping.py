"""How scenes are split into groups: in order, each as small as the machine needs."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.demo import grouping
from sluicegate.demo.grouping import capacity, groups

weighted = st.lists(st.tuples(st.integers(1, 12), st.integers()))


@given(weighted, st.integers(1, 60))
def test_all_are_in_groups_in_order_and_none_weighs_too_much(items: list[tuple[int, int]], most: int) -> None:
    found = list(groups(((weight, (weight, item)) for weight, item in items), most))
    assert list(chain(*found)) == items
    assert all(found)
    assert all(len(group) == 1 or sum(weight for weight, _ in group) <= most for group in found)


def test_a_slow_machine_has_less_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_a_round_of(seconds: float) -> int:
        clock = iter((100.0, 100.0 + 5 * seconds))
        monkeypatch.setattr(grouping, "perf_counter", lambda: next(clock))
        return capacity()

    assert [with_a_round_of(seconds) for seconds in (0.001, 0.02, 0.04, 10.0)] == [50, 50, 25, 8]
