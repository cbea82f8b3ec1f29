"""Timers run in order, once, and not after they are cancelled."""

from sluicegate.sessions.timers import Timers


def test_timers_run_once_in_order_of_time_and_then_of_registration() -> None:
    timers, done = Timers(), list[tuple[str, int]]()
    timers.at(20, lambda now_ns: done.append(("later", now_ns)))
    timers.at(10, lambda now_ns: done.append(("first asked for", now_ns)))
    timers.at(10, lambda now_ns: done.append(("asked for second", now_ns)))
    timers.at(21, lambda now_ns: done.append(("not yet", now_ns)))

    assert timers.due_ns == 10
    timers.run_due(9)
    assert done == []
    timers.run_due(20)
    assert done == [("first asked for", 20), ("asked for second", 20), ("later", 20)]
    timers.run_due(20)
    assert (len(done), timers.due_ns, bool(timers)) == (3, 21, True)


def test_a_cancelled_timer_neither_runs_nor_delays() -> None:
    timers, done = Timers(), list[int]()
    cancelled, passed_over = timers.at(5, done.append), timers.at(6, done.append)
    timers.at(7, done.append)

    cancelled.cancel()
    assert timers.due_ns == 6
    passed_over.cancel()
    timers.run_due(6)
    assert done == []
    assert timers.due_ns == 7
    timers.run_due(7)
    assert done == [7]


def test_no_timer_is_due_when_all_are_cancelled() -> None:
    timers = Timers()
    timers.at(5, lambda now_ns: None).cancel()
    timers.at(6, lambda now_ns: None).cancel()

    assert timers.due_ns is None
    assert not timers


def test_a_wake_up_is_requested_once_unless_an_earlier_one_is_needed() -> None:
    timers = Timers()
    assert timers.wake_up_ns() is None
    timers.at(20, lambda now_ns: None)
    assert (timers.wake_up_ns(), timers.wake_up_ns()) == (20, None)
    timers.at(30, lambda now_ns: None)
    assert timers.wake_up_ns() is None
    timers.at(10, lambda now_ns: None)
    assert (timers.wake_up_ns(), timers.wake_up_ns()) == (10, None)
    timers.run_due(10)
    assert timers.wake_up_ns() == 20


def test_a_timer_is_new_until_the_next_wake_up_is_asked_for() -> None:
    timers, seen = Timers(), list[bool]()

    def note() -> None:
        seen.append(timers.has_new)

    note()
    timers.at(20, lambda now_ns: None)
    note()
    timers.wake_up_ns()
    note()
    timers.at(10, lambda now_ns: None).cancel()
    timers.run_due(20)
    note()
    timers.wake_up_ns()
    note()
    assert seen == [False, True, False, True, False]
    assert not timers
