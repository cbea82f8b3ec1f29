"""Requests and responses that take long to read or to decide: a slice in each turn of the event loop."""

from collections.abc import Callable, Generator, Hashable
from typing import TypeAlias

from sluicegate.broker import Buffer, NextTurn
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.codec.slices import Slices
from sluicegate_kafka.session.requests.held import Held
from sluicegate_kafka.session.requests.suspended import Retry, Suspended

Deciding: TypeAlias = Slices["bool | Suspended"]
"""Returns what a handler returns."""
Asking: TypeAlias = Generator[Hashable | None, None, "bool | Suspended"]
"""The same; yields a question to the front, or None for the next turn."""
Made: TypeAlias = Buffer | Held | None
"""What is made of a response; see `Handle`."""
Making: TypeAlias = Slices[Made]


class Turn:
    """The turn of the event loop that a slice runs in.

    :param now_ns: monotonic time.
    """

    __slots__ = ("now_ns",)

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns
        """Monotonic time of the slice at hand."""


class Sliced(Turn):
    """One request that a generator processes, which yields to other clients.

    Nearly every request is done in the first slice, and then costs no turn.

    :param frame: the buffer that holds the request.
    :param head: its header.
    :param now_ns: monotonic time.
    """

    __slots__ = ("_frame", "_head", "_slices", "leave", "refuse")

    def __init__(self, frame: bytes, head: RequestHead, now_ns: int) -> None:
        super().__init__(now_ns)
        self.leave: Callable[[int], None] | None = None
        """Called if the client goes before the last slice."""
        self.refuse: Callable[[int], None] | None = None
        """Answers the request if there is no room to keep it; None while that is not possible yet."""
        self._frame = frame
        self._head = head
        self._slices: Asking | None = None

    def begin(self, slices: Asking) -> bool | Suspended:
        """Run the first slice.

        :return: the result, or a placeholder for the rest.
        """
        self._slices = slices
        return self._go_on(self._frame, self._head, self.now_ns)

    def _go_on(self, frame: bytes, head: RequestHead, now_ns: int) -> bool | Suspended:
        self.now_ns = now_ns
        if self._slices is None:
            raise RuntimeError("a request that was given up is resumed")
        try:
            question = next(self._slices)
        except StopIteration as ended:
            result: bool | Suspended = ended.value
            return result
        question = NextTurn() if question is None else question
        refuse = None if self.refuse is None else self._refuse
        return Suspended(self._go_on, frame, head, question=question, leave=self._give_up, refuse=refuse)

    def _refuse(self, now_ns: int) -> None:
        """There is no room to keep it: answer it, and give back at once what it has taken."""
        if self.refuse is not None:
            self.refuse(now_ns)
        self._give_up(now_ns)

    def _give_up(self, now_ns: int) -> None:
        """The client has disconnected: skip the rest."""
        if self._slices is not None:
            self._slices.close()
            self._slices = None
        if self.leave is not None:
            self.leave(now_ns)


class SlicedResponse(Turn):
    """One response that a generator processes; later bytes of the broker wait meanwhile.

    :param now_ns: monotonic time.
    """

    __slots__ = ("_slices",)

    def __init__(self, now_ns: int) -> None:
        super().__init__(now_ns)
        self._slices: Making | None = None

    def begin(self, slices: Making) -> "Made | SlicedResponse":
        """Run the first slice.

        :return: the response to send, or this object while there is more to do.
        """
        self._slices = slices
        return self.go_on(self.now_ns)

    def go_on(self, now_ns: int) -> "Made | SlicedResponse":
        """Run the next slice; returns as `begin`."""
        if self._slices is None:
            raise RuntimeError("a response that was given up is resumed")
        self.now_ns = now_ns
        try:
            next(self._slices)
        except StopIteration as ended:
            made: Made = ended.value
            return made
        return self

    def give_up(self) -> None:
        """The client has disconnected: skip the rest."""
        if self._slices is not None:
            self._slices.close()
            self._slices = None


Handle: TypeAlias = Callable[[bytes, int], Made | SlicedResponse]
"""`(response without its length, now_ns)` -> that same object to pass it unchanged, another one (with its
length) to send instead, None for nothing yet, or what makes one of these in later turns."""


def deciding_in_slices(decide: Callable[[Sliced, bytes, RequestHead], Deciding]) -> Retry:
    """A handler of a request that works in slices.

    :param decide: `(turn, buffer, header)` -> its slices.
    """

    def handle(frame: bytes, head: RequestHead, now_ns: int) -> bool | Suspended:
        turn = Sliced(frame, head, now_ns)
        return turn.begin(decide(turn, frame, head))

    return handle


def in_slices(make: Callable[[SlicedResponse, bytes], Making]) -> Handle:
    """A handler of a response that works in slices.

    :param make: `(turn, response without its length)` -> its slices.
    """

    def handle(response: bytes, now_ns: int) -> Made | SlicedResponse:
        turn = SlicedResponse(now_ns)
        return turn.begin(make(turn, response))

    return handle
