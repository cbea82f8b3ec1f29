"""When a message may be delivered under a fixed delay."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class DelayRule:
    """A fixed delivery delay, as it holds for one topic."""

    fixed_ms: int
    """Milliseconds between publishing and delivery; above 0."""
    max_ahead_ms: int = 3_600_000
    """How far in the future a publish time may lie before it is no longer believed."""
    clock: Literal["publish_time", "receive_time"] = "publish_time"
    """Whether the delay counts from the message's own time stamp or from when the gate first saw it."""


def due_ms(rule: DelayRule, timestamp_ms: int, first_seen_ms: int) -> int:
    """The earliest time at which a message may be delivered.

    A stored message stamped further ahead than the rule believes would otherwise block its partition
    for as long as the stamp says; it is due at first sight plus the delay.

    :param rule: the topic's rule.
    :param timestamp_ms: the message's time stamp, in ms of the wall clock; negative if it has none.
    :param first_seen_ms: when the gate first saw the message, in ms of the wall clock.
    """
    believed = 0 <= timestamp_ms <= first_seen_ms + rule.max_ahead_ms
    start = timestamp_ms if believed and rule.clock == "publish_time" else first_seen_ms
    return start + rule.fixed_ms
