"""What the engine answers, and why."""

from dataclasses import dataclass
from enum import StrEnum


class Action(StrEnum):
    """What is to be done with an operation."""

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
    """One policy's part in a decision; a decision may have several and each is kept."""

    policy: str
    """Policy name as it is written in the file, such as `max_publish_rate`."""
    outcome: Outcome
    text: str
    """The text for the client: limit, current value, advice and topic, without the decision id."""
    current: float = 0
    limit: float = 0
    level: str = ""
    """Level that supplied the limit: broker, namespace or topic; empty if built in."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The engine's answer where it is not a plain allow (which is None, and costs nothing)."""

    action: Action
    reasons: tuple[Reason, ...]
    delay_ns: int = 0
    """How long to hold before asking again (DELAY), at most a second at a time."""
    factor: float = 1.0
    """The quota factor that was in force, 0.0 to 1.0."""
    observed: bool = False
    """True if only observed: what would have been done was recorded, and nothing is to be done."""
    policy_version: int = 0
    id: str = ""
    """Short id that a refusal carries to the client; `sluicegate explain ID` resolves it."""

    @property
    def text(self) -> str:
        """The first reason's text, which is the one that clients are shown."""
        return self.reasons[0].text if self.reasons else ""
