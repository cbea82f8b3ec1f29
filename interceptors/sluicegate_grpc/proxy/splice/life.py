"""The states of one client connection, and what leads from one to another."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from sluicegate.broker import Close
from sluicegate.decisions.ids import with_id
from sluicegate.model import Decision, SessionClose
from sluicegate_grpc.proxy.splice.frames import STREAM_MASK
from sluicegate_grpc.semantics.status import Refusal


class State(Enum):
    """Of a client connection."""

    OPENING = "opening"
    """The client's preface, or the connection to its broker, is to come."""
    OPEN = "open"
    """Frames pass."""
    REFUSING = "refusing"
    """Frames pass, and new requests are answered by a status; GOAWAY is to come."""
    DRAINING = "draining"
    """GOAWAY was sent: what is under way goes on, and new requests are made elsewhere."""
    UNREACHABLE = "unreachable"
    """The gateway answers in place of a broker that cannot be connected."""
    CLOSED = "closed"
    """A peer broke the protocol, or there is no room for what it sends."""


class Event(Enum):
    """What happens to a client connection."""

    CONNECTED = "connected"
    UNREACHABLE = "unreachable"
    ENDING = "ending"
    """The gateway ends, and streams of messages are open."""
    GOAWAY = "goaway"
    """New requests have to be made on another connection."""
    BROKEN = "broken"


TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    (State.OPENING, Event.CONNECTED): State.OPEN,
    (State.OPENING, Event.UNREACHABLE): State.UNREACHABLE,
    (State.OPENING, Event.BROKEN): State.CLOSED,
    (State.OPEN, Event.ENDING): State.REFUSING,
    (State.OPEN, Event.GOAWAY): State.DRAINING,
    (State.OPEN, Event.BROKEN): State.CLOSED,
    (State.REFUSING, Event.GOAWAY): State.DRAINING,
    (State.REFUSING, Event.BROKEN): State.CLOSED,
    (State.DRAINING, Event.BROKEN): State.CLOSED,
}
"""Other events change nothing."""
PASSING: Final = frozenset({State.OPEN, State.REFUSING, State.DRAINING})
"""States in which frames pass."""


@dataclass(slots=True, eq=False)
class Life:
    """The state of one client connection, and what belongs to it."""

    state: State = State.OPENING
    refusal: Refusal | None = None
    """Answers new requests while they are refused."""
    refuses_until_ns: int = 0
    """When GOAWAY may replace this answer; 0 if there was none."""
    close: Close | None = None
    """Why the connection ends, once it is closed."""
    _last: int = STREAM_MASK
    """The last stream of the last GOAWAY."""

    def happens(self, event: Event) -> bool:
        """Go to another state; False if the event leads to none."""
        before = self.state
        self.state = TRANSITIONS.get((before, event), before)
        return self.state is not before

    def refuse(self, refusal: Refusal, until_ns: int) -> None:
        """Answer new requests by a status until GOAWAY is sent; no effect after it.

        :param until_ns: when GOAWAY may be sent.
        """
        if self.happens(Event.ENDING) or self.state is State.REFUSING:
            self.refusal, self.refuses_until_ns = refusal, until_ns

    def fail(self, close: Close) -> None:
        """The connection cannot go on."""
        if self.happens(Event.BROKEN):
            self.close = close

    def break_off(self, decision: Decision) -> None:
        """End the connection, as a policy says that tests clients."""
        self.fail(Close(SessionClose.FAULT_INJECTED, with_id(decision.text, decision.id)))

    def last_stream(self, last: int) -> int:
        """The last stream of a GOAWAY to the client: the next names none above it (RFC 9113 section 6.8)."""
        self._last = min(self._last, last)
        return self._last
