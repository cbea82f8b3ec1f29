"""What decisions need of a message beyond its command: its largest part, and what checks read of it.

Only where a policy asks for it, and in slices. A large payload is unpacked in a thread.
"""

from collections.abc import Collection
from typing import Final

from sluicegate.decisions.ids import with_id
from sluicegate.engine.delivery_time import DelayRule, delivery_by_header, due_ms
from sluicegate.engine.gate import Gate
from sluicegate.model import UNCHANGED, Action, Decision, HeaderChange, Message
from sluicegate.model.message import message_of
from sluicegate.sessions.work import Ask, Work
from sluicegate_pulsar.codec.contents import (
    CONTENTS_PER_SLICE,
    MOST_MESSAGES,
    Content,
    PropertyChange,
    changed_batch,
    read_batch,
    read_message,
    with_batch,
    with_change,
)
from sluicegate_pulsar.codec.errors import ChecksumMismatchError, ProtocolError
from sluicegate_pulsar.codec.metadata import (
    MESSAGES_PER_SLICE,
    MetadataHead,
    at_once,
    largest_message,
    read_composed,
)
from sluicegate_pulsar.codec.sends import parts_of
from sluicegate_pulsar.session.producer_state.producer import Producer
from sluicegate_pulsar.session.producer_state.sent import Changed, Examined, Sent, examined_of
from sluicegate_pulsar.session.producers.repacking import Repacking
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.shared.shared import Shared

_AT_ONCE: Final = 32 * 1024
"""Bytes that are unpacked in the loop: 0.2 ms; or packed again: 2 ms by zlib, a tenth of that by others."""
_READ_WORK: Final = MESSAGES_PER_SLICE // CONTENTS_PER_SLICE
"""The work of reading a message, in messages of a batch that are walked."""
_MESSAGE_BYTES: Final = 500
"""Memory of what is read of a message, besides its payload."""
_FRAME_PADDING: Final = 9 * 1024
"""Bytes that a frame may have beyond the largest message: brokers take 10 KiB, and storing needs some."""
_INSIDE: Final = frozenset({"headers", "key", "value"})
"""What stands in the payload of a batch; its schema is that of the whole."""


class Examining:
    """Examines the messages of one connection.

    :param shared: the front's state.
    :param connection: where they come from.
    """

    __slots__ = ("_connection", "_shared")

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection

    def examine_at_once(
        self, producer: Producer, sent: Sent, metadata: MetadataHead | None, received_ms: int
    ) -> Examined | None:
        """As `examine`, in this turn; None if it takes slices, or a thread."""
        reads = producer.gate.reads
        if metadata is None or (not reads and sent.head.payload_size <= producer.size_limit):
            return examined_of((metadata, None, (), "damaged" if metadata is None else "", 0))
        if sent.head.payload_size <= producer.size_limit and not (metadata.is_batch or "value" in reads):
            return self._outside(producer.gate, metadata, received_ms)
        if _is_measured(producer, sent, metadata) and metadata.num_messages_in_batch >= MESSAGES_PER_SLICE:
            return None
        if reads and _is_unpacked(metadata, reads) and _is_long(metadata):
            return None
        return at_once(self.examine(producer, sent, metadata, received_ms))

    def _outside(self, gate: Gate, metadata: MetadataHead, received_ms: int) -> Examined:
        """What the metadata of a message that is no batch holds, as most do."""
        self._connection.charge_work(_READ_WORK)
        try:
            messages = [message_of(read_message(metadata.parsed, b"", gate.reads))]
        except ProtocolError as error:
            return Examined(metadata, unreadable=error.reason)
        deliver_at = _deliver_at(gate, messages, metadata, received_ms)
        return examined_of((metadata, None, messages, "", deliver_at))

    @staticmethod
    def change_takes_long(metadata: MetadataHead | None) -> bool:
        """Whether a message has to be changed in slices, or in a thread."""
        return metadata is None or (metadata.is_batch and _is_long(metadata))

    def examine(
        self, producer: Producer, sent: Sent, metadata: MetadataHead | None, received_ms: int
    ) -> Work[Examined]:
        """Examine a message as its producer's gate requires.

        :param received_ms: when the gateway received it, ms of the wall clock.
        """
        largest = None
        if metadata is not None and _is_measured(producer, sent, metadata):
            parts = parts_of(*sent)
            measured = yield from largest_message(sent.data, parts, metadata, producer.size_limit)
            self._connection.charge_work(measured.walked)
            largest = measured.largest
        gate = producer.gate
        if not gate.reads:
            return Examined(metadata, largest)
        if metadata is None:
            return Examined(metadata, largest, unreadable="damaged")
        self._connection.charge_work(_READ_WORK)
        contents, unreadable = yield from self._contents(sent, metadata, gate.reads)
        messages = list(map(message_of, contents))
        deliver_at = _deliver_at(gate, messages, metadata, received_ms)
        return Examined(metadata, largest, messages, unreadable, deliver_at)

    def memory(self, metadata: MetadataHead | None) -> int:
        """Bytes of memory that the messages of an entry take while a policy reads them."""
        if metadata is None:
            return 0
        size, most = metadata.parsed.uncompressed_size, self._shared.config.max_frame_bytes
        return (size if size <= most else 0) + _MESSAGE_BYTES * metadata.num_messages_in_batch

    def changed(
        self, sent: Sent, examined: Examined, metadata: MetadataHead | None, decision: Decision
    ) -> Work[Changed]:
        """A message as a decision wants it.

        :param metadata: None if it is damaged.
        """
        if decision.headers is UNCHANGED:
            return Changed(sent, examined)
        try:
            if metadata is None:
                return Changed(sent, examined, is_damaged=True)
            frame = yield from self._changed(sent, metadata, decision.headers)
        except ChecksumMismatchError:
            return Changed(sent, examined, is_damaged=True)
        except ProtocolError as error:
            text = f"The properties of the message cannot be changed: {error.reason}"
            return Changed(sent, examined._replace(metadata=metadata), with_id(text, decision.id))
        changed = Sent.whole(frame)
        if problem := _growth(sent, changed, self._connection.broker_size):
            policies = ", ".join(sorted({reason.policy for reason in decision.reasons}))
            text = f"The properties of the message cannot be changed by {policies}: {problem}"
            return Changed(sent, examined._replace(metadata=metadata), with_id(text, decision.id))
        return Changed(changed, examined._replace(metadata=read_composed(*changed)))

    def _changed(self, sent: Sent, metadata: MetadataHead, change: HeaderChange) -> Work[bytes]:
        """The frame of a message whose properties are changed.

        :raises ProtocolError: when it cannot be read, or is damaged.
        """
        _check_number(metadata)
        data, start, stop, _ = sent
        parts, properties = parts_of(*sent), PropertyChange(change.set, change.remove)
        if not metadata.is_batch:
            return with_change(data, start, stop, parts, metadata, properties)
        payload = yield from self._payload(sent, metadata)
        payload = yield from changed_batch(metadata, payload, properties)
        size = len(payload)
        if metadata.compression:
            payload = yield from _repacked(Repacking(metadata.compression, payload, None), metadata)
        return with_batch(data, start, parts, metadata, size, payload)

    def _contents(
        self, sent: Sent, metadata: MetadataHead, reads: Collection[str]
    ) -> Work[tuple[list[Content], str]]:
        """What the messages hold, and why that is not all of it: then it lacks a value, or is empty."""
        contents: list[Content] = []
        try:
            _check_number(metadata)
            is_unpacked = _is_unpacked(metadata, reads)
            if not (metadata.is_batch and is_unpacked):
                contents = [read_message(metadata.parsed, b"", reads)] * metadata.num_messages_in_batch
            if is_unpacked:
                payload = yield from self._payload(sent, metadata)
                if not metadata.is_batch:
                    contents = [(*contents[0][:-1], payload)]
                else:
                    contents = yield from read_batch(metadata, payload, reads)
                    self._connection.charge_work(_READ_WORK * (len(contents) % CONTENTS_PER_SLICE))
        except ProtocolError as error:
            return contents, error.reason
        return contents, ""

    def _payload(self, sent: Sent, metadata: MetadataHead) -> Work[bytes]:
        """The payload of an entry, unpacked.

        :raises ProtocolError: when it cannot be read.
        """
        if metadata.is_encrypted:
            raise ProtocolError("encrypted")
        if metadata.is_chunk:
            raise ProtocolError("a chunk of a message")
        payload = sent.data[sent.head.payload : sent.stop]
        if not metadata.compression:
            return payload
        size, most = metadata.parsed.uncompressed_size, self._shared.config.max_frame_bytes
        if size > most:
            raise ProtocolError(f"{size} bytes compressed, of which at most {most} are unpacked")
        return (yield from _repacked(Repacking(metadata.compression, payload, size), metadata))


def holds_up(decision: Decision) -> bool:
    """Whether a message waits for what was decided: for its rate, or until its properties are changed."""
    if decision.action is Action.REWRITE:
        return decision.headers is not UNCHANGED
    return decision.action is Action.DELAY


def _growth(before: Sent, after: Sent, broker_size: int) -> str:
    """Why a changed frame is too large; empty if it is not, or was as large before.

    Brokers close the connection that brings a larger frame, and consumers drop a larger payload.
    """
    for old, new, most in (
        (before.head.payload_size, after.head.payload_size, broker_size),
        (before.stop - before.start, len(after.data), broker_size + _FRAME_PADDING),
    ):
        if new > max(old, most):
            return f"it would have {new} bytes, and the broker takes messages of {broker_size}"
    return ""


def _check_number(metadata: MetadataHead) -> None:
    if metadata.num_messages_in_batch > MOST_MESSAGES:
        raise ProtocolError(f"a batch of over {MOST_MESSAGES} messages")


def _is_measured(producer: Producer, sent: Sent, metadata: MetadataHead) -> bool:
    """Whether it matters which message of a batch is the largest."""
    return sent.head.payload_size > producer.size_limit and not metadata.is_chunk


def _is_unpacked(metadata: MetadataHead, reads: Collection[str]) -> bool:
    """Whether the payload has to be read."""
    return not _INSIDE.isdisjoint(reads) if metadata.is_batch else "value" in reads


def _is_long(metadata: MetadataHead) -> bool:
    """Whether it takes long to read or to change what the payload holds."""
    return metadata.num_messages_in_batch >= CONTENTS_PER_SLICE or _needs_thread(metadata)


def _needs_thread(metadata: MetadataHead) -> bool:
    is_small = metadata.parsed.uncompressed_size <= _AT_ONCE and Repacking.is_loaded
    return bool(metadata.compression) and not is_small


def _repacked(repacking: Repacking, metadata: MetadataHead) -> Work[bytes]:
    if not _needs_thread(metadata):
        repacking.run()
    else:
        yield Ask(repacking)
    if repacking.problem:
        raise ProtocolError(repacking.problem)
    return repacking.result


def _deliver_at(gate: Gate, messages: list[Message], metadata: MetadataHead, received_ms: int) -> int:
    """When a header wants the messages delivered; 0 if it does not say, or not in an intelligible way."""
    rule: DelayRule | None = gate.header_delay
    if rule is None:
        return 0
    try:
        delivery = delivery_by_header(messages, rule.header)
    except ValueError:
        return 0  # the policy refuses them
    if delivery is None:
        return 0
    return delivery.at_ms(due_ms(rule, metadata.publish_time, received_ms, received_ms))
