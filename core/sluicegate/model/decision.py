"""What the engine decides about an operation, and why."""

from dataclasses import dataclass
from enum import StrEnum

from sluicegate.model.identifiers import written_out
from sluicegate.model.message import UNCHANGED, HeaderChange

_LONGEST_TEXT = 4_096
"""Most characters of a reason: client libraries and protocols bound the length of errors."""
_MOST = 1e300
_MOST_NS = 1 << 62
"""Nanoseconds that clocks, timers and the decision log can hold."""


class Action(StrEnum):
    """What to do with an operation."""

    ALLOW = "allow"
    REJECT = "reject"
    DELAY = "delay"
    REWRITE = "rewrite"
    DROP = "drop"


class Outcome(StrEnum):
    """Why an operation was not simply allowed; each broker maps these to its own codes."""

    LIMIT_REACHED = "limit_reached"
    """A count or a rate is used up (gRPC RESOURCE_EXHAUSTED)."""
    INVALID = "invalid"
    """The operation can never pass, such as a message that is too large (gRPC INVALID_ARGUMENT)."""
    PRECONDITION = "precondition"
    """It may pass later: paused, state unknown, draining (gRPC FAILED_PRECONDITION)."""


class Breakage(StrEnum):
    """What a session breaks as it refuses a request, so that users can test their clients.

    A session that cannot do so refuses the request as any other.
    """

    CONNECTION = "connection"
    """The client's connection is closed without a response."""
    RESPONSE = "response"
    """The response cannot be read."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One policy's part in a decision, which may have several."""

    policy: str
    """Policy name as written in the file, such as `max_publish_rate`."""
    outcome: Outcome
    text: str
    """The text for the client: limit, current value, advice and topic, without the decision id."""
    current: float = 0
    limit: float = 0
    level: str = ""
    """Level that supplied the limit: broker, namespace or topic; empty if built in."""

    def __post_init__(self) -> None:
        """Bound the text, which has names of clients in it, and refuse what is of another type.

        :raises ValueError: if a field is of another type, or a number is not finite.
        """
        # Each refusal comes here: one condition, as a call would cost as much as all of it.
        text, current, limit = self.text, self.current, self.limit
        if not (
            isinstance(self.outcome, Outcome)
            and isinstance(text, str)
            and isinstance(self.policy, str)
            and isinstance(current, int | float)
            and isinstance(limit, int | float)
            and -_MOST <= current <= _MOST  # NaN fails, too
            and -_MOST <= limit <= _MOST
        ):
            raise ValueError(f"no usable Reason: {self!r}")
        if not text.isascii() or len(text) > _LONGEST_TEXT:
            object.__setattr__(self, "text", written_out(text)[:_LONGEST_TEXT])


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision other than a plain allow, which is None."""

    action: Action
    reasons: tuple[Reason, ...]
    delay_ns: int = 0
    """How long to hold before the next decision (DELAY), at most a second."""
    factor: float = 1.0
    """The quota factor that was in force, 0.0 to 1.0."""
    observed: bool = False
    """True if only observed: the action was recorded and must not be taken."""
    policy_version: int = 0
    id: str = ""
    """Short id that a refusal carries to the client; `sluicegate explain ID` resolves it."""
    headers: HeaderChange = UNCHANGED
    """What to change in the headers of every message (REWRITE)."""
    breaks: Breakage | None = None
    """What is broken besides (REJECT); None for nothing, as in every real refusal."""

    def __post_init__(self) -> None:
        """Bound the delay, and refuse what no session could carry out.

        :raises ValueError: if a field is of another type, or out of its bounds.
        """
        if not (
            isinstance(self.action, Action)
            and isinstance(self.reasons, tuple | list)
            and type(self.delay_ns) is int
            and self.delay_ns >= 0
            and 0 <= self.factor <= 1
            and isinstance(self.headers, HeaderChange)
            and (self.breaks is None or (type(self.breaks) is Breakage and self.action is Action.REJECT))
        ):
            raise ValueError(f"no usable Decision: {self!r}")
        if self.delay_ns > _MOST_NS:  # a low rate and a large batch make for centuries
            object.__setattr__(self, "delay_ns", _MOST_NS)

    @property
    def text(self) -> str:
        """The first reason's text, which clients see."""
        return self.reasons[0].text if self.reasons else ""
