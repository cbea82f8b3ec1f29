"""Requests and responses that their handlers cannot deal with at once: the work on each."""

from collections.abc import Callable
from typing import TypeAlias

from sluicegate.broker import Buffer
from sluicegate.sessions.work import TURN, Running, Turn, Work
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.codec.slices import Slices
from sluicegate_kafka.session.requests.held import Held

Decided: TypeAlias = bool | Running[bool]
"""True if a request passes unchanged, False if its handler has dealt with it (and left in `Connection.parts`
what goes upstream in its place), or the work on it, which waits. Nothing behind it is read meanwhile."""
Handler: TypeAlias = Callable[[bytes, RequestHead, int], Decided]
"""`(buffer, head, now_ns)`. If there is no room to keep the request while it waits, NoRoomError is raised in
the work; a handler whose protocol has an answer for that catches it and answers."""

Made: TypeAlias = Buffer | Held | None
"""What is made of a response; see `Handle`."""
Making: TypeAlias = Slices[Made]
Handle: TypeAlias = Callable[[bytes, int], Made | Running[Made]]
"""`(response without its length, now_ns)` -> that same object to pass it unchanged, another one (with its
length) to send instead, None for nothing yet, or the work that makes one of these in later turns; later bytes
of the broker wait meanwhile."""


def deciding(decide: Callable[[Turn, bytes, RequestHead], Work[bool]]) -> Handler:
    """A handler of a request that may wait.

    Nearly every request is done in the first slice, and then costs no turn.
    """

    def handle(frame: bytes, head: RequestHead, now_ns: int) -> Decided:
        work: Running[bool] = Running(now_ns)
        return work.begin(decide(work, frame, head))

    return handle


def in_slices(make: Callable[[Turn, bytes], Making]) -> Handle:
    """A handler of a response that works in slices.

    :param make: `(turn, response without its length)` -> its slices.
    """

    def handle(response: bytes, now_ns: int) -> Made | Running[Made]:
        work: Running[Made] = Running(now_ns)
        return work.begin(make(work, response))

    return handle


def next_turn(now_ns: int) -> Running[bool]:
    """Nothing is held: the next request is read after other clients' turns."""

    def pause() -> Work[bool]:
        yield TURN
        return False

    work: Running[bool] = Running(now_ns)
    work.begin(pause())
    return work
