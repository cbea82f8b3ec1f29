"""How far consumer groups are behind, in bytes."""

from collections import UserDict
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.config.pressure_section import BacklogConfig
from sluicegate.engine.pressure import Backlog
from sluicegate_kafka.cluster.backlogs import Log, backlogs

NONE = BacklogConfig()
LOGS = {("a", 0): Log(0, 100, 10_000), ("a", 1): Log(50, 150, 20_000), ("b", 0): Log(0, 0, 0)}


def test_the_group_that_is_furthest_behind_counts() -> None:
    fast = {("a", 0): 100, ("a", 1): 140}
    slow = {("a", 0): 40, ("a", 1): 100}
    found = backlogs(LOGS, [fast, slow], {"a": 50_000, "b": -1}, NONE)
    assert found == {"a": Backlog(60 * 100 + 50 * 200, 100_000), "b": Backlog(0, 0)}


def test_a_group_whose_records_are_gone_is_behind_by_all_that_is_left() -> None:
    assert backlogs(LOGS, [{("a", 1): 10}], {}, NONE)["a"].bytes == 20_000


def test_a_group_that_never_committed_is_behind_by_all() -> None:
    assert backlogs(LOGS, [{("a", 0): -1}], {}, NONE)["a"].bytes == 10_000


@pytest.mark.seed("S5-006", "S5-022")
def test_topics_without_retention_by_size_have_the_configured_quota_or_none() -> None:
    found = backlogs(LOGS, [], {"a": -1}, BacklogConfig(quota=1 << 20, quota_messages=1_000))
    assert found["a"].quota_bytes == 150 * 1_000  # 30,000 bytes in 200 records, 1,000 of which may wait
    assert found["b"].quota_bytes == 1 << 20
    assert backlogs(LOGS, [], {"a": -1}, NONE)["a"].quota_bytes == 0


def test_topics_that_the_gateway_does_not_know_are_left_out() -> None:
    assert set(backlogs(LOGS, [{("other", 0): 3}], {}, NONE)) == {"a", "b"}


def test_the_partitions_of_many_topics_are_looked_through_once() -> None:
    class Counted(UserDict[tuple[str, int], Log]):
        passes = 0

        def __iter__(self) -> Iterator[tuple[str, int]]:
            Counted.passes += 1
            return super().__iter__()

    logs = Counted({(f"t{number}", 0): Log(0, 100, 100) for number in range(100)})
    assert len(backlogs(logs, [], {"t7": 5}, NONE)) == 100
    assert Counted.passes == 1


@given(begin=st.integers(0, 1000), held=st.integers(0, 1000), size=st.integers(0, 10**9), data=st.data())
def test_a_lag_never_exceeds_the_records_that_exist(
    begin: int, held: int, size: int, data: st.DataObject
) -> None:
    log = Log(begin, begin + held, size)
    offset = data.draw(st.integers(-1, begin + held + 10))
    assert 0 <= log.behind(offset) <= size
    assert log.behind(begin + held) == 0
