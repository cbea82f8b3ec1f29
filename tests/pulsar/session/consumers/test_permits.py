"""Permits: never more than granted, all of them in the end, and only as many as there is room for."""

from hypothesis import given
from hypothesis import strategies as st

from sluicegate_pulsar.session.consumers.permits import Permits

ROOM = 100_000
STEPS = st.lists(
    st.tuples(st.integers(0, 50), st.sampled_from([0, 0, 1, 3, 20]), st.sampled_from([10, 900, 30_000])),
    max_size=60,
)


@given(STEPS)
def test_permits_never_exceed_the_grant_and_never_stall(steps: list[tuple[int, int, int]]) -> None:
    permits = Permits(ROOM)
    granted = taken = used = 0
    for grant, batch, size in steps:
        permits.grant(grant)
        granted += grant
        taken += permits.take(0)
        assert taken <= granted
        assert permits.waiting == granted - taken
        assert permits.outstanding == taken - used
        # With nothing withheld the broker can go on whenever the client has granted enough.
        assert permits.outstanding > 0 or permits.waiting == 0
        if batch and permits.outstanding > 0:
            permits.used(batch, size)
            used += batch


def test_expected_bytes_fit_the_buffer() -> None:
    permits = Permits(ROOM, 1000)
    permits.grant(1000)
    assert permits.take(0) == 100
    assert permits.take(0) == 0
    permits.used(50, 1000)
    assert permits.take(50_000) == 0
    assert permits.take(0) == 50


def test_small_grants_wait_until_they_are_worth_a_frame() -> None:
    permits = Permits(ROOM, 1000)
    permits.grant(1000)
    permits.take(0)
    for _ in range(24):
        permits.used(1, 1000)
        assert permits.take(0) == 0
    permits.used(1, 1000)
    assert permits.take(0) == 25


def test_the_last_permits_do_not_wait() -> None:
    permits = Permits(ROOM, 1000)
    permits.grant(3)
    assert permits.take(0) == 3


def test_the_size_estimate_rises_at_once_and_falls_slowly() -> None:
    permits = Permits(ROOM, 100)
    permits.used(1, 10_000)
    assert permits.entry_bytes == 10_000
    permits.used(1, 100)
    assert 9_000 < permits.entry_bytes < 10_000
    for _ in range(1000):
        permits.used(1, 100)
    assert permits.entry_bytes < 200


def test_taking_more_than_granted_returns_what_is_left() -> None:
    permits = Permits(10, 1000, exact=False)
    permits.grant(500)
    assert permits.take(1_000_000) == 500
