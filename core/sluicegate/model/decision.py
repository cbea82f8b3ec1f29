"""What the engine answers, and why."""

from dataclasses import dataclass
from enum import StrEnum


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


@dataclass(frozen=True, slots=True)
class Decision:
    """The engine's answer other than a plain allow, which is None."""

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

    @property
    def text(self) -> str:
        """The first reason's text, which clients see."""
        return self.reasons[0].text if self.reasons else ""
