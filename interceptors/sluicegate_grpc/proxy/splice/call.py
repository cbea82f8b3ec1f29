"""One policed request, in parts that each have one owner."""

from dataclasses import dataclass, field

from sluicegate.engine.wait_queue import Hold
from sluicegate.model import Operation
from sluicegate.sessions.timers import Timer
from sluicegate_grpc.proxy.splice.body import Body
from sluicegate_grpc.proxy.splice.flow import Outlet
from sluicegate_grpc.proxy.splice.request import Request
from sluicegate_grpc.semantics.calls import Attaching, Caller, Id, Stream


@dataclass(slots=True, eq=False)
class Opening:
    """A request's headers on their way to the broker; `Holding` writes it."""

    place: int
    """Their offset in the bytes being read."""
    is_up: bool = False
    """True once the broker knows of the request."""
    frames: bytes = b""
    """The header block, until it goes to the broker."""
    credit: int = 0
    """The window that the client has opened for the response until then."""


@dataclass(slots=True, eq=False)
class Pending:
    """What is known of the message at hand until it is forwarded; `Deciding` writes it."""

    topic: str = ""
    """Its topic, for the text of a refusal."""
    op: Operation | None = None
    """A publish that waits."""
    producer: Id | None = None
    """Its producer, if it counts by an unconfirmed claim."""
    attaching: Attaching | None = None
    """A producer or consumer that attaches."""
    delivery: Stream | None = None
    """The consumer whose messages it asks for."""
    hold: Hold | None = None
    """How long it may wait; None while it has not had to."""
    timer: Timer | None = None
    """When it is decided again."""


@dataclass(slots=True, eq=False)
class Call:
    """One policed HTTP/2 stream.

    It holds data only. What happens to a call is decided by the session that owns it.
    """

    stream: int
    """Its id."""
    request: Request
    """What its headers say."""
    caller: Caller
    """Who makes it."""
    outlet: Outlet
    """Its outlet to the broker."""
    opening: Opening
    body: Body
    pending: Pending = field(default_factory=Pending)
    is_answered: bool = False
    """True once the client got response headers."""
    has_ended: bool = False
    """True once the client has ended the request."""
    end: bytes = b""
    """The frame that ended it, if that was not DATA."""
