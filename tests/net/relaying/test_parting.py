"""A session with many resources ends in slices, and its exceptions affect no others."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.gateway.echo_plugin import RawSession

from sluicegate.net.relaying.parting import part
from sluicegate.net.relaying.turns import Turns


class Loop:
    """An event loop whose turns a test takes."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def call_soon(self, call: Callable[[], None]) -> None:
        """As a loop's."""
        self.due.append(call)

    def turn(self) -> None:
        """Do what is due now."""
        due, self.due = self.due, []
        for call in due:
            call()


class Parting:
    """A session that is ended in so many slices.

    :param fails_at: the slice that raises.
    """

    def __init__(self, slices: int, fails_at: int = -1) -> None:
        self.slices = slices
        self.fails_at = fails_at
        self.done: list[int] = []

    def parting(self, now_ns: int) -> Iterator[None]:
        """The connection is closed."""
        for number in range(self.slices):
            if number == self.fails_at:
                raise RuntimeError("slice")
            self.done.append(number)
            yield


class Plain(RawSession):
    """A session that is ended at once, and raises."""

    def closed(self, now_ns: int) -> None:
        """The connection is closed."""
        raise RuntimeError("closed")


def ended(session: Any) -> tuple[Loop, list[Exception]]:
    """Have a session end; the loop, and what was raised."""
    loop: Any = Loop()
    failures: list[Exception] = []
    part(session, 1, partial(Turns(loop).queue, "a"), failures.append)
    return loop, failures


def test_slices_run_in_turns_and_the_first_at_once() -> None:
    session = Parting(3)
    loop, failures = ended(session)
    assert session.done == [0]
    while loop.due:
        loop.turn()
    assert session.done == [0, 1, 2]
    assert failures == []


def test_a_session_that_holds_little_takes_no_turn() -> None:
    loop, failures = ended(Parting(0))
    assert loop.due == []
    assert failures == []


def test_a_slice_that_raises_is_logged_and_ends_the_others() -> None:
    session = Parting(5, fails_at=2)
    loop, failures = ended(session)
    while loop.due:
        loop.turn()
    assert session.done == [0, 1]
    assert list(map(str, failures)) == ["slice"]
    assert list(map(str, ended(Parting(2, fails_at=0))[1])) == ["slice"]


def test_a_session_without_slices_is_ended_at_once() -> None:
    loop, failures = ended(Plain("10.0.0.1:5"))
    assert loop.due == []
    assert list(map(str, failures)) == ["closed"]
