"""When a message that the gateway withholds is due.

A delay counts from the publish time that its producer stamped on it, or from when a gateway or a broker first
had it (`delay_clock`, or where the publish time lies too long before that). Messages that were stored before
the delay was set are late by the same rule.
"""

from typing import NamedTuple

from google.protobuf.message import DecodeError

from sluicegate.engine.delivery_time import DelayRule
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.frames import ABSENT, Parts
from sluicegate_pulsar.codec.message_frames import MessageHead
from sluicegate_pulsar.session.shared.shared import Shared


class Dates(NamedTuple):
    """The known times of a message, in ms of the wall clock."""

    published_ms: int
    received_ms: int | None
    """When the gateway or the broker first had it; None if that was not needed."""


def dates_of(
    data: bytes, head: MessageHead, rule: DelayRule, shared: Shared, key: tuple[str, int, int], now_ns: int
) -> Dates:
    """Read the times of a message from the broker.

    :param data: the buffer that holds the frame.
    :param key: topic, ledger id and entry id, which identify a redelivered message.
    """
    published_ms = head.metadata.publish_time
    wall_ms = shared.wall_ms(now_ns)
    if rule.clock == "publish_time" and published_ms <= wall_ms + rule.max_ahead_ms:
        if published_ms >= wall_ms - rule.max_behind_ms:
            return Dates(published_ms, None)
        received_ms = _noted_ms(data, head, rule, wall_ms)
        is_back_dated = received_ms is not None and published_ms < received_ms - rule.max_behind_ms
        return Dates(published_ms, received_ms if is_back_dated else None)
    if rule.clock == "receive_time":
        received_ms = _noted_ms(data, head, rule, wall_ms)
    else:
        received_ms = _broker_ms(data, head.parts, wall_ms)
    return Dates(published_ms, shared.first_seen.ms(key, wall_ms) if received_ms is None else received_ms)


def _noted_ms(data: bytes, head: MessageHead, rule: DelayRule, wall_ms: int) -> int | None:
    """When it first arrived, by the broker's metadata or the gateway's rewriting; None if neither says."""
    stored_ms = _broker_ms(data, head.parts, wall_ms)
    deliver_at_ms = head.metadata.deliver_at
    if stored_ms is not None or deliver_at_ms is None:
        return stored_ms
    received_ms = deliver_at_ms - rule.fixed_ms
    # A later one was requested by a client, before the delay was set.
    return received_ms if 0 <= received_ms <= wall_ms else None


def _broker_ms(data: bytes, parts: Parts, wall_ms: int) -> int | None:
    """The time in the broker entry metadata (PIP-70), which brokers send if they are told to.

    None without one, and for a time in the future.
    """
    if parts.broker_entry == ABSENT:
        return None
    try:
        entry = pb.BrokerEntryMetadata.FromString(bytes(data[parts.broker_entry : parts.broker_entry_end]))
    except DecodeError:
        return None
    is_past = entry.HasField("broker_timestamp") and entry.broker_timestamp <= wall_ms
    return entry.broker_timestamp if is_past else None


def due_in_ms(rule: DelayRule, dates: Dates, shared: Shared, now_ns: int) -> int:
    """Milliseconds until a message is due; 0 or less if it is."""
    received_ms = dates.received_ms
    start_ms = dates.published_ms if received_ms is None else received_ms
    return start_ms + rule.fixed_ms - shared.wall_ms(now_ns)
