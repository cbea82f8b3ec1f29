"""A request that must wait before it can be decided or forwarded."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from sluicegate.broker import Buffer, NextTurn
from sluicegate_kafka.codec.frames import RequestHead

_NO_REQUEST = RequestHead(0, 0, 0, "", 4, 4, 4)
Retry = Callable[[bytes, RequestHead, int], "bool | Suspended"]


@dataclass(slots=True, eq=False)
class Suspended:
    """A waiting request, and its deadline or question."""

    retry: Retry
    """Decides again; returns what a handler returns."""
    frame: bytes
    """The buffer that holds the request."""
    head: RequestHead
    _: KW_ONLY
    wake_ns: int = 0
    question: object | None = None
    leave: Callable[[int], None] | None = None
    """Gives up places in queues when the client has disconnected."""
    refuse: Callable[[int], None] | None = None
    """Answers at once, so that the client tries again later; None where the protocol has no such answer."""

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
