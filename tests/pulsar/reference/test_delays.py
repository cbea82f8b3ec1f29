"""Entries wait for their time, and are polled once a tick."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar.reference.lab import NOW, Log

from sluicegate_pulsar.reference.delays import DelayedEntries, DelaySettings


def test_waits_until_the_exact_delivery_time() -> None:
    log = Log()
    log.add(deliver_at=NOW + 500)
    delayed = DelayedEntries(DelaySettings(tick_ms=100))
    assert delayed.delay(log[0], NOW)
    assert delayed.take_due(NOW + 499) == []
    assert delayed.take_due(NOW + 500) == [0]
    assert len(delayed) == 0


def test_due_and_undelayed_messages_do_not_wait() -> None:
    log = Log()
    log.add(deliver_at=NOW)
    log.add(deliver_at=-5)
    log.add()
    delayed = DelayedEntries(DelaySettings())
    assert [delayed.delay(entry, NOW) for entry in log] == [False, False, False]


def test_a_broker_that_is_not_strict_is_early_by_up_to_a_tick() -> None:
    log = Log()
    log.add(deliver_at=NOW + 500)
    log.add(deliver_at=NOW + 100)
    delayed = DelayedEntries(DelaySettings(tick_ms=100, strict=False))
    assert [delayed.delay(entry, NOW) for entry in log] == [True, False]
    assert delayed.wake_at() == NOW + 400
    assert delayed.take_due(NOW + 399) == []
    assert delayed.take_due(NOW + 400) == [0]


def test_polls_at_most_once_a_tick() -> None:
    log = Log()
    log.add(deliver_at=NOW + 10)
    log.add(deliver_at=NOW + 30)
    delayed = DelayedEntries(DelaySettings(tick_ms=100))
    assert delayed.wake_at() is None
    for entry in log:
        delayed.delay(entry, NOW)
    delayed.take_due(NOW + 5)
    assert delayed.wake_at() == NOW + 105
    assert delayed.take_due(NOW + 105) == [0, 1]
    assert delayed.wake_at() is None


def test_inactive_delivers_at_once() -> None:
    log = Log()
    log.add(deliver_at=NOW + 500)
    settings = DelaySettings(active=False)
    delayed = DelayedEntries(settings)
    assert not delayed.delay(log[0], NOW)
    settings.active = True
    assert delayed.delay(log[0], NOW)
    delayed.clear()
    assert delayed.take_due(NOW + 1_000) == []


@settings(deadline=None)
@given(st.lists(st.integers(min_value=-1_000, max_value=1_000), max_size=30), st.integers(0, 300))
def test_never_early_and_late_by_less_than_two_ticks(ahead: list[int], tick: int) -> None:
    log = Log()
    delayed = DelayedEntries(DelaySettings(tick_ms=tick))
    for each in ahead:
        log.add(deliver_at=NOW + each)
    waiting = {entry.number for entry in log if delayed.delay(entry, NOW)}
    assert waiting == {number for number, each in enumerate(ahead) if each > 0}
    now = NOW
    while (wake_at := delayed.wake_at()) is not None:
        now = max(wake_at, now)
        due = delayed.take_due(now)
        assert due
        assert all(log[number].deliver_at_ms <= now <= log[number].deliver_at_ms + tick for number in due)
        waiting.difference_update(due)
    assert waiting == set()
