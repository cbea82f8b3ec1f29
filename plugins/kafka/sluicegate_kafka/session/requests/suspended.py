"""A request that must wait before it can be decided or forwarded."""

from collections.abc import Callable

from sluicegate.broker import Buffer, NextTurn
from sluicegate_kafka.codec.frames import RequestHead

_NO_REQUEST = RequestHead(0, 0, 0, "", 4, 4, 4)
Retry = Callable[[bytes, RequestHead, int], "bool | Suspended"]


class Suspended:
    """A waiting request, and its deadline or question."""

    __slots__ = ("frame", "head", "leave", "question", "refuse", "retry", "wake_ns")

    def __init__(
        self,
        retry: "Retry",
        frame: bytes,
        head: RequestHead,
        *,
        wake_ns: int = 0,
        question: object | None = None,
        leave: Callable[[int], None] | None = None,
        refuse: Callable[[int], None] | None = None,
    ) -> None:
        self.retry = retry
        """Asks again; gives what a handler gives."""
        self.frame = frame
        self.head = head
        self.wake_ns = wake_ns
        self.question = question
        self.leave = leave
        """Gives up places in lines when the client has gone."""
        self.refuse = refuse
        """Answers at once, so that the client tries again later; None where that cannot be said."""

    @property
    def request(self) -> Buffer:
        """The whole request unchanged, with its length."""
        return memoryview(self.frame)[self.head.start - 4 : self.head.end]

    def abandon(self, now_ns: int) -> None:
        """The client has disconnected: never forward what is held."""
        if self.leave is not None:
            self.leave(now_ns)


def next_turn() -> Suspended:
    """Nothing is held: the next request is read after other clients' turns."""
    return Suspended(_go_on, b"", _NO_REQUEST, question=NextTurn())


def _go_on(frame: bytes, head: RequestHead, now_ns: int) -> bool:
    return False
