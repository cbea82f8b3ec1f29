"""What handlers make of requests and responses: the commands that they return."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

from sluicegate.broker import Buffer
from sluicegate.sessions.work import Task, Turn, Work
from sluicegate_kafka.codec.frames import RequestHead

Result = TypeVar("Result")
Later: TypeAlias = Callable[[Turn], Work[Result]]
"""Work that may wait; the caller gives the turn that its slices run in."""

# -- of responses ----------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Finished:
    """A response that waits for those before it, and until a time if one is given."""

    frame: Buffer
    at_ns: int = 0
    work: Task[Buffer] | None = None
    """Makes another response; if it takes until `at_ns`, it is closed, and `frame` is sent."""

    def makes(self, work: Task[Buffer]) -> None:
        """Work on another response waits."""
        self.work = work

    def becomes(self, frame: Buffer) -> None:
        """Its work is done: send this after those before it."""
        self.frame, self.at_ns, self.work = frame, 0, None


Made: TypeAlias = Buffer | Finished | None
"""What is made of a response: that same object to pass it unchanged, another one (with its length) to send
instead, None for nothing yet."""
Making: TypeAlias = Work[Made]
Handle: TypeAlias = Callable[[bytes, int], Made | Later[Made]]
"""`(response without its length, now_ns)`; later bytes of the broker wait for what is made later."""


def in_slices(make: Callable[[Turn, bytes], Making]) -> Handle:
    """A handler of a response that works in slices.

    :param make: `(turn, response without its length)` -> its slices.
    """
    return lambda response, now_ns: lambda turn: make(turn, response)


# -- what the broker owes --------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Expected:
    """A response that the broker owes and that the gateway wants to see whole."""

    correlation_id: int
    handle: Handle


@dataclass(slots=True, eq=False)
class Glance:
    """A response that nearly always passes unchanged; made once for all such responses of a connection."""

    plain_length: int
    """Length of a response without anything to read, without the length field; -1 if unknown."""
    passes: Callable[[bytes], bool]
    """`(response without its length)` -> True if it may; called once it is complete."""
    handle: Handle
    """Makes the response to send if not."""


Glanced: TypeAlias = tuple[int, Glance]
"""Correlation id and how the response is checked: a tuple, as one is made for every Produce request."""
Owed: TypeAlias = int | Glanced | Expected
"""A response of the broker. A plain integer is the correlation id of one that passes unread."""

# -- of requests -----------------------------------------------------------------------------------


class Pass(NamedTuple):
    """The request goes to the broker unchanged."""

    owed: Owed | None
    """The broker's response to it; None if it sends none."""


class Answer(NamedTuple):
    """The gateway answers the request, which does not go to the broker."""

    response: Buffer


Decided: TypeAlias = Pass | Answer | None
"""What becomes of a request; None if nothing is left to do."""
Handler: TypeAlias = Callable[[bytes, RequestHead, int], Decided | Later[Decided]]
"""`(buffer, head, now_ns)`. Nothing behind the request is read while its work waits. If there is no room to
keep it meanwhile, NoRoomError is raised in the work; one whose protocol has a code for that catches it."""


def deciding(decide: Callable[[Turn, bytes, RequestHead], Work[Decided]]) -> Handler:
    """A handler of a request that may wait. Nearly every request is done in the first slice."""
    return lambda frame, head, now_ns: lambda turn: decide(turn, frame, head)


def pass_if(is_read: bool, correlation_id: int, handle: Handle) -> Pass:
    """Pass a request of which only some responses are of interest.

    :param is_read: whether this one is; if not, it passes unread.
    :param correlation_id: of the request.
    :param handle: gets the response.
    """
    return Pass(Expected(correlation_id, handle) if is_read else correlation_id)


def ignore(response: bytes, now_ns: int) -> None:
    """Handle a response of which nothing is needed."""
