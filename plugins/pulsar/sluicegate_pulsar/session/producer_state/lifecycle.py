"""The states of one producer, and the events that lead from one to another."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, TypeVar

from sluicegate.sessions.work import Running, Task, Turn, Wait, Work

R = TypeVar("R")


class State(Enum):
    """Where a producer stands; each has one at a time."""

    ATTACHING = "attaching"
    """The broker has not answered its PRODUCER."""
    OPEN = "open"
    OVERFLOWING = "overflowing"
    """More of it waits than may: what it sends is discarded until it is reopened."""
    REOPENING = "reopening"
    """Its client was told to reopen it; the broker still has it."""
    CLOSING = "closing"
    """The client's CLOSE_PRODUCER waits behind its messages."""
    CLOSED = "closed"


class Event(Enum):
    """What happens to a producer."""

    OPENED = "the broker lets it in"
    OVERFLOWS = "too much of it waits"
    TOLD_TO_REOPEN = "its client is told to reopen it"
    REOPENED = "its client has reopened it"
    IS_TO_CLOSE = "its client closes it, behind messages that wait"
    ENDED = "its client or the broker has closed it, or the connection has ended"


TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    (State.ATTACHING, Event.OPENED): State.OPEN,
    (State.ATTACHING, Event.OVERFLOWS): State.OVERFLOWING,
    (State.ATTACHING, Event.IS_TO_CLOSE): State.CLOSING,
    (State.OPEN, Event.OVERFLOWS): State.OVERFLOWING,
    (State.OPEN, Event.IS_TO_CLOSE): State.CLOSING,
    (State.OVERFLOWING, Event.OPENED): State.OVERFLOWING,
    (State.OVERFLOWING, Event.OVERFLOWS): State.OVERFLOWING,
    (State.OVERFLOWING, Event.TOLD_TO_REOPEN): State.REOPENING,
    (State.OVERFLOWING, Event.IS_TO_CLOSE): State.CLOSING,
    (State.REOPENING, Event.REOPENED): State.OPEN,
    (State.CLOSING, Event.OPENED): State.CLOSING,
    (State.CLOSING, Event.OVERFLOWS): State.CLOSING,
    (State.CLOSING, Event.IS_TO_CLOSE): State.CLOSING,
    **{(state, Event.ENDED): State.CLOSED for state in State if state is not State.CLOSED},
}
"""All others are faults of the gateway."""


class Lifecycle:
    """The state of one producer, and the work that waits for it."""

    __slots__ = ("_overflowed_ns", "_work", "opened", "state")

    def __init__(self) -> None:
        self.state = State.ATTACHING
        self.opened = b""
        """The broker's PRODUCER_SUCCESS, a serialized command; empty until it has arrived."""
        self._overflowed_ns = 0
        self._work: Task[Any] | None = None

    def happens(self, event: Event) -> bool:
        """Change the state.

        :return: False if it stays the same.
        :raises ValueError: if this cannot happen in the present state.
        """
        before = self.state
        if (before, event) not in TRANSITIONS:
            raise ValueError(f"a producer that is {before.value}: {event.value}")
        self.state = TRANSITIONS[before, event]
        if self.state is State.OPEN:
            self._overflowed_ns = 0
        return self.state is not before

    def opened_by(self, response: bytes) -> None:
        """The broker lets it in.

        :param response: its PRODUCER_SUCCESS, a serialized command.
        """
        self.opened = response
        self.happens(Event.OPENED)

    def overflowed_ns(self, now_ns: int) -> int:
        """When it overflowed, as far as was noticed: what makes it overflow may not know the time."""
        self._overflowed_ns = self._overflowed_ns or now_ns
        return self._overflowed_ns

    @property
    def waits(self) -> bool:
        """Whether work is under way for it."""
        return self._work is not None

    def run(
        self, wait: Wait, work: Callable[[Turn], Work[R]], done: Callable[[R, int], None], now_ns: int
    ) -> None:
        """Do work for it: it has no other.

        :param wait: the connection's.
        :param done: called with the result and the time, also if the work ends at once.
        """

        def ended(result: R, now_ns: int) -> None:
            self._work = None
            done(result, now_ns)

        self._work = task = Task(wait, ended, now_ns)
        made = task.begin(work(task))
        if not isinstance(made, Running):
            ended(made, now_ns)

    def stop(self, now_ns: int) -> None:
        """End its work, which gives back what it has taken; idempotent."""
        work, self._work = self._work, None
        if work is not None:
            work.close(now_ns)
