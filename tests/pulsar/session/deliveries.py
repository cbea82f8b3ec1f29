"""Frames of the consuming side, and a consumer to try them on."""

import struct
from collections.abc import Mapping
from typing import Any

from benchmarks.harness.pulsar_bytes import payload_frame
from tests.pulsar.session.messages import TOPIC, TYPES, frame
from tests.pulsar.session.wire import Wire

from sluicegate.engine.state import TopicState
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.frames import MAGIC_BROKER_ENTRY

SHARED, EXCLUSIVE, FAILOVER, KEY_SHARED = (
    pb.Subscribe.SHARED,
    pb.Subscribe.EXCLUSIVE,
    pb.Subscribe.FAILOVER,
    pb.Subscribe.KEY_SHARED,
)
LEDGER = 7


def subscribe(
    consumer_id: int = 0,
    request_id: int = 1,
    topic: str = TOPIC,
    subscription: str = "sub",
    kind: int | None = SHARED,
    **fields: Any,
) -> bytes:
    """A client wants to consume a topic."""
    if kind is not None:
        fields["sub_type"] = kind
    names = {"topic": topic, "subscription": subscription}
    return frame("subscribe", consumer_id=consumer_id, request_id=request_id, **names, **fields)


def success(request_id: int = 1) -> bytes:
    """The broker agrees."""
    return frame("success", request_id=request_id)


def failure(request_id: int = 1, code: int = pb.CONSUMER_BUSY, text: str = "no") -> bytes:
    """The broker does not agree."""
    return frame("error", request_id=request_id, error=code, message=text)


def flow(permits: int, consumer_id: int = 0) -> bytes:
    """The client can take more messages."""
    return frame("flow", consumer_id=consumer_id, message_permits=permits)


def message(
    entry_id: int,
    payload: bytes = b"hello",
    consumer_id: int = 0,
    command: Mapping[str, Any] | None = None,
    broker_ms: int | None = None,
    **metadata: Any,
) -> bytes:
    """A message from the broker.

    :param command: further fields of the command.
    :param broker_ms: time in the broker entry metadata; none is sent if it is left out.
    :param metadata: further fields of the message's metadata.
    """
    sent = pb.BaseCommand(type=TYPES.MESSAGE)
    place = pb.MessageIdData(ledger_id=LEDGER, entry_id=entry_id)
    sent.message.CopyFrom(pb.Message(consumer_id=consumer_id, message_id=place, **(command or {})))
    fields = {"producer_name": "p", "sequence_id": entry_id, "publish_time": 1, **metadata}
    whole = payload_frame(sent, pb.MessageMetadata(**fields).SerializeToString(), payload)
    if broker_ms is None:
        return whole
    raw = pb.BrokerEntryMetadata(broker_timestamp=broker_ms).SerializeToString()
    entry = struct.pack(">HI", MAGIC_BROKER_ENTRY, len(raw)) + raw
    command_end = 8 + int.from_bytes(whole[4:8], "big")
    size = struct.pack(">I", len(whole) - 4 + len(entry))
    return size + whole[4:command_end] + entry + whole[command_end:]


def ack(*entries: int, consumer_id: int = 0, cumulative: bool = False, left: tuple[int, ...] = ()) -> bytes:
    """The client acknowledges entries.

    :param left: words with a bit for each message of the batch that is not acknowledged.
    """
    ids = [pb.MessageIdData(ledger_id=LEDGER, entry_id=entry, ack_set=left) for entry in entries]
    kind = pb.Ack.CUMULATIVE if cumulative else pb.Ack.INDIVIDUAL
    return frame("ack", consumer_id=consumer_id, ack_type=kind, message_id=ids)


def attach(wire: Wire, consumer_id: int = 0, request_id: int = 1, **options: Any) -> None:
    """A consumer that the broker lets in."""
    wire.client_sends(subscribe(consumer_id, request_id, **options))
    assert [each.type for each in wire.forwarded()] == [TYPES.SUBSCRIBE]
    wire.broker_sends(success(request_id))
    assert [each.type for each in wire.answered()] == [TYPES.SUCCESS]


def delivered(wire: Wire) -> list[int]:
    """Entries that reached the client since the last call."""
    answers = wire.answered()
    assert {each.type for each in answers} <= {TYPES.MESSAGE}
    return [each.message.message_id.entry_id for each in answers]


def permits(wire: Wire) -> int:
    """Permits that reached the broker since the last call."""
    sent = wire.forwarded()
    assert {each.type for each in sent} <= {TYPES.FLOW}
    return sum(each.flow.message_permits for each in sent)


def refused(wire: Wire) -> tuple[int, str]:
    """Code and text of the ERROR that the client got."""
    (answer,) = wire.answered()
    assert answer.type == TYPES.ERROR
    return answer.error.error, answer.error.message


def state_of(wire: Wire, topic: str = TOPIC) -> TopicState:
    """What the gateway knows of a topic."""
    return wire.shared.gates.states[topic]
