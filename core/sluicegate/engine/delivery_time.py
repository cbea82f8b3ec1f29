"""When a message may be delivered: after a fixed delay, or as its producer requested."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from sluicegate.model import Message
from sluicegate.model.policy import MAX_DELAY_MS

_MAX_FIRST_SEEN = 100_000
_LEAST_TIME_MS = 10**11
"""From here on a bare number is a time, the first in March 1973; a smaller one is a delay."""
_HEADER = re.compile(rb"([0-9]{1,15})(ms|s|m|min|h|d)?")
_UNITS = {b"ms": 1, b"s": 1_000, b"m": 60_000, b"min": 60_000, b"h": 3_600_000, b"d": 86_400_000}
_SHOWN = 40
"""Bytes of a malformed header that its refusal shows."""


@dataclass(frozen=True, slots=True)
class DelayRule:
    """The rule for the delivery times of one topic's messages. A fixed delay overrides a maximum."""

    fixed_ms: int
    """Milliseconds between publishing and delivery; 0 leaves it to the producer, within `max_ms`."""
    max_ahead_ms: int = 3_600_000
    """How far in the future a publish time may lie before it is no longer credible."""
    clock: Literal["publish_time", "receive_time"] = "publish_time"
    """Whether the delay counts from the message's own time stamp or from when the gate first saw it."""
    max_ms: int = 0
    """Longest delay that a producer may request, in ms; 0 for any."""
    tick_ms: int = 0
    """How exactly the broker keeps to a delivery time, in ms; 0 if no policy says."""
    max_behind_ms: int = 5_000
    """How long before its arrival a message may be stamped before its time stamp is no longer believed."""
    header: str = ""
    """Name of the header by which a message says when it is to be delivered; empty for none. A fixed delay
    overrides it."""

    def __post_init__(self) -> None:
        """Refuse times by which no delivery can be computed.

        :raises ValueError: if a time is no int from 0 to a hundred years, or the clock is another one.
        """
        for ms in (self.fixed_ms, self.max_ahead_ms, self.max_ms, self.tick_ms, self.max_behind_ms):
            if type(ms) is not int or not 0 <= ms <= MAX_DELAY_MS:
                raise ValueError(f"a DelayRule has {ms!r}, expected milliseconds as an int of 0 or more")
        if self.clock not in ("publish_time", "receive_time"):
            raise ValueError(f"a DelayRule has clock {self.clock!r}, expected publish_time or receive_time")
        if not isinstance(self.header, str):
            raise ValueError(f"a DelayRule has header {self.header!r}, expected the name of one")


UNKNOWN: Final = -1
"""Replaces an unknown time."""


def due_ms(rule: DelayRule, timestamp_ms: int, first_seen_ms: int, arrived_after_ms: int = UNKNOWN) -> int:
    """The earliest time at which a message may be delivered.

    A time stamp counts only if it is credible. One too far ahead would block its partition until
    then, and one too far behind would take the message out of the delay. Such a message is due at first sight
    plus the delay.

    :param rule: the topic's rule.
    :param timestamp_ms: the message's time stamp, in ms of the wall clock; negative if it has none.
    :param first_seen_ms: when the gate first saw the message, in ms of the wall clock.
    :param arrived_after_ms: a time before which the message was not there, in ms of the wall clock; unknown
        for one that may have been stored for any time.
    """
    earliest_ms = max(0, arrived_after_ms - rule.max_behind_ms)
    believed = earliest_ms <= timestamp_ms <= first_seen_ms + rule.max_ahead_ms
    start = timestamp_ms if believed and rule.clock == "publish_time" else first_seen_ms
    return start + rule.fixed_ms


class FirstSeen:
    """When the gateway first saw messages without a usable timestamp; the oldest are evicted."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int, int], int] = {}

    def ms(self, message: tuple[str, int, int], now_ms: int) -> int:
        """When a message was first seen.

        :param message: its identity: topic, and two numbers of the broker's.
        :param now_ms: the wall clock, in ms.
        """
        seen = self._seen.setdefault(message, now_ms)
        if len(self._seen) > _MAX_FIRST_SEEN:
            self._seen.pop(next(iter(self._seen)))
        return seen


def asked_ms(deliver_at_ms: int, now_ms: int) -> int:
    """The delay that a producer requested; none for a time in the past.

    :param deliver_at_ms: when the message is to be delivered, in ms of the wall clock; 0 or less for at once.
    :param now_ms: the wall clock, in ms.
    """
    return max(0, deliver_at_ms - now_ms)


class DeliveryTime(NamedTuple):
    """When a message is to be delivered, as its header says."""

    ms: int
    is_delay: bool
    """True if it counts from when the message was published, False if from 1970."""

    def at_ms(self, published_ms: int) -> int:
        """The time of delivery, in ms of the wall clock."""
        return published_ms + self.ms if self.is_delay else self.ms


def delivery_by_header(messages: Iterable[Message], name: str) -> DeliveryTime | None:
    """The delivery time that a header of all these messages says; None if none has that header.

    Brokers deliver a batch as a whole, so its messages have to agree.

    :param messages: one, or a batch.
    :param name: of the header.
    :raises ValueError: if a header is malformed, or they differ.
    """
    values = {dict(message.headers).get(name) for message in messages}  # of several, clients show the last
    if len(values) > 1:
        raise ValueError("the messages of a batch differ in it, so disable batching in the producer")
    value = next(iter(values), None)
    return None if value is None else _delivery_time(value)


def _delivery_time(value: bytes) -> DeliveryTime:
    match = _HEADER.fullmatch(value)
    if match is not None:
        ms = int(match[1]) * _UNITS[match[2] or b"ms"]
        if not match[2] and ms >= _LEAST_TIME_MS:
            return DeliveryTime(ms, is_delay=False)
        if ms <= MAX_DELAY_MS:
            return DeliveryTime(ms, is_delay=True)
    shown = value[:_SHOWN].decode(errors="backslashreplace")
    raise ValueError(f"{shown!r} is neither milliseconds since 1970 nor a delay such as 30s")
