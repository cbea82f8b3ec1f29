"""Work that waits: it goes on where it stopped, and gives back what it took when it is closed."""

import pytest

from sluicegate.sessions.work import TURN, Ask, Resume, Running, Task, Turn, Until, Waits, Work


def steps(turn: Turn, seen: list[object]) -> Work[str]:
    try:
        seen.append(turn.now_ns)
        yield TURN
        seen.append(turn.now_ns)
        yield Until(70)
        seen.append((yield Ask("groups")))
        return "done"
    finally:
        seen.append(f"ended at {turn.now_ns}")


def test_it_goes_on_where_it_stopped_with_the_time_and_the_answer() -> None:
    seen: list[object] = []
    work: Running[str] = Running(10)
    assert work.begin(steps(work, seen)) is work
    waits = [work.waits]
    for now_ns in (20, 70):
        assert work.go_on(now_ns) is work
        waits.append(work.waits)
    assert waits == [TURN, Until(70), Ask("groups")]
    assert work.go_on(80, ["a"]) == "done"
    assert seen == [10, 20, ["a"], "ended at 80"]


def test_an_answer_that_is_an_exception_is_raised_where_it_asked() -> None:
    def careful(turn: Turn) -> Work[str]:
        try:
            yield Ask("groups")
        except KeyError:
            return "none"
        return "some"

    work: Running[str] = Running(0)
    work.begin(careful(work))
    assert work.go_on(1, KeyError()) == "none"


def test_what_it_does_not_catch_reaches_the_session_after_it_has_given_back_all() -> None:
    seen: list[object] = []
    work: Running[str] = Running(10)
    work.begin(steps(work, seen))
    with pytest.raises(KeyError):
        work.go_on(20, KeyError())
    assert seen == [10, "ended at 20"]


def test_closing_gives_back_what_it_took_once() -> None:
    seen: list[object] = []
    work: Running[str] = Running(10)
    work.begin(steps(work, seen))
    work.close(30)
    work.close(40)
    assert seen == [10, "ended at 30"]
    with pytest.raises(RuntimeError, match="closed"):
        work.go_on(50)


def test_work_that_need_not_wait_is_done_at_once() -> None:
    def quick() -> Work[int]:
        yield from ()
        return 3

    assert Running[int](0).begin(quick()) == 3


class Connection:
    """What tasks wait for, in order, until the test resumes it."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Waits, Resume]] = []
        self.done: list[tuple[str, int]] = []

    def task(self) -> Task[str]:
        return Task(
            lambda waits, resume: self.waiting.append((waits, resume)),
            lambda made, now_ns: self.done.append((made, now_ns)),
            10,
        )

    def resume(self, now_ns: int, answer: object = None) -> Waits:
        waits, resume = self.waiting.pop(0)
        resume(now_ns, answer)
        return waits


def test_a_task_is_resumed_by_its_connection_until_it_is_done() -> None:
    seen: list[object] = []
    connection = Connection()
    task = connection.task()
    assert task.begin(steps(task, seen)) is task
    assert [connection.resume(20), connection.resume(70), connection.resume(80, "a")] == [
        TURN,
        Until(70),
        Ask("groups"),
    ]
    assert connection.done == [("done", 80)]
    assert connection.waiting == []


def test_a_task_that_is_closed_is_not_resumed() -> None:
    seen: list[object] = []
    connection = Connection()
    task = connection.task()
    task.begin(steps(task, seen))
    task.close(30)
    connection.resume(40)
    assert seen == [10, "ended at 30"]
    assert not connection.done
    assert not connection.waiting


def test_a_task_that_ends_in_its_first_slice_returns_its_result() -> None:
    def short() -> Work[str]:
        yield from ()
        return "at once"

    connection = Connection()
    assert connection.task().begin(short()) == "at once"
    assert not connection.done
    assert not connection.waiting
