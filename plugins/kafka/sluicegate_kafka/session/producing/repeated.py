"""Produce requests that equal the previous one except for the batch, as most do.

A producer that sends one batch at a time to one topic repeats everything in front of the batch but the
correlation id: versions, client id, transaction, acks, topic. Comparing those bytes with the last request's
costs a tenth of reading them again. Any other request takes the slow path.
"""

import struct
import sys

from sluicegate.engine.gate import Gate, allowed
from sluicegate.model import Decision, Operation
from sluicegate_kafka.codec.primitives import write_uvarint
from sluicegate_kafka.codec.produce_requests import FIRST_FLEXIBLE, ProduceRequest
from sluicegate_kafka.codec.records import BATCH_OVERHEAD
from sluicegate_kafka.session.producing.contents import SHORT_BYTES, Reading
from sluicegate_kafka.session.producing.inspecting import inspects
from sluicegate_kafka.session.requests.connection import Connection
from sluicegate_kafka.session.requests.outcomes import Glance
from sluicegate_kafka.session.shared.plain_producers import PlainProducer
from sluicegate_kafka.session.shared.shared import Shared

_LENGTH_BYTES = 4
_HEAD_BYTES = 8
"""API key, version and correlation id."""
_ONE_BYTE = 0x7F
_INDEX_BYTES = 4
_NO_TAGS = b"\0\0\0"
"""Empty tagged fields of the partition, the topic and the request: what follows the one batch."""
_MAGIC = 2
_BATCH_START = 12
"""Bytes of a batch that its length does not count: base offset and the length itself."""
_NONE_YET = -1
"""No batch has this length, so that the first one counts as changed."""
_HEADER_REST = 49
"""Bytes of a batch's header that its length counts."""


class Attached:
    """One producer on one topic.

    :param operation: its one operation, whose sizes are reset for each request.
    :param gate: the topic's gate.
    :param plain: its place among equal clients; None if it has a producer id.
    :param now_ns: monotonic time.
    """

    __slots__ = ("delayed", "gate", "inspects", "last_ns", "looks", "operation", "plain", "size_limit")

    def __init__(self, operation: Operation, gate: Gate, plain: PlainProducer | None, now_ns: int) -> None:
        self.operation = operation
        self.plain = plain
        """Its place among equal clients, if it has no producer id."""
        self.last_ns = now_ns
        """When it last published."""
        self.use(gate)

    def use(self, gate: Gate) -> None:
        """Use a newly compiled gate."""
        self.gate = gate
        policies = gate.policies_for(self.operation.principal, self.operation.client)
        self.size_limit = int(policies.number("max_message_size")) or sys.maxsize
        self.delayed = gate.delay is not None
        self.inspects = inspects(gate)
        self.looks = bool(gate.reads) or self.inspects
        self.operation.unreadable = ""  # under other policies it may not be set again


class Form:
    """What requests like an earlier one have in common.

    :param request: the earlier one.
    """

    __slots__ = ("around", "head", "producer_id", "reliable", "tail", "unpack")

    def __init__(self, request: ProduceRequest) -> None:
        frame, head, topic = request.frame, request.head, request.topics[0]
        self.producer_id = topic.producer_id
        self.reliable = request.acks != 0
        self.head = frame[head.start : head.start + 4]
        # The topic's entry: its name with one byte of length, then the array length of its one partition.
        self.tail = tail = frame[head.start + _HEAD_BYTES : topic.start + frame[topic.start] + 1]
        size = write_uvarint(topic.bytes + 1)
        self.around = _HEAD_BYTES + len(tail) + _INDEX_BYTES + len(size) + _BATCH_START + len(_NO_TAGS)
        # The frame: length, head, correlation id, tail, index, size of the batch. The batch: base offset,
        # length, leader epoch, magic, from crc to timestamps, producer id, epoch and sequence, count.
        self.unpack = struct.Struct(f">i4si{len(tail)}s4x{len(size)}s8xi4xb26xq6xi").unpack_from


class Repeated:
    """Passes requests that equal an earlier one, if that named one topic and one partition.

    :param shared: gates and limits.
    :param connection: where the requests come from.
    :param attached: their producer.
    :param request: the earlier one.
    :param reading: reads messages where a policy wants that.
    :param glance: for the responses that are owed; None if they pass unread.
    """

    __slots__ = (
        "_attached",
        "_batch",
        "_connection",
        "_form",
        "_gaps",
        "_gates",
        "_glance",
        "_limit",
        "_reading",
        "_size",
        "_topic",
        "decision",
    )

    def __init__(
        self,
        shared: Shared,
        connection: Connection,
        attached: Attached,
        request: ProduceRequest,
        reading: Reading,
        glance: Glance | None,
    ) -> None:
        self.decision: Decision | None = None
        """What was decided about a request that `again` did not pass although it looked alike."""
        self._gates = shared.gates
        self._gaps = shared.client_gaps.by_client
        self._connection = connection
        self._attached = attached
        self._reading = reading
        self._glance = glance
        self._form = Form(request)
        self._topic = request.topics[0].name
        self._limit = shared.limits.max_frame_bytes
        self._batch = _NONE_YET
        self._size = b""

    def again(  # noqa: C901 - hot
        self, data: bytes, at: int, end: int, now_ns: int
    ) -> int:
        """Pass requests in a row as long as they equal the previous one and their topic's gate allows them.

        :param data: what came from the client.
        :param at: where the first of them starts, with its length.
        :param end: where the data end.
        :param now_ns: monotonic time.
        :return: where the request starts that takes the slow path, as a malformed one does; else the end.
        """
        # <hot> Runs for nearly every Produce request.
        form, connection, attached = self._form, self._connection, self._attached
        outstanding, gaps, operation = connection.outstanding, self._gaps, attached.operation
        owed = outstanding.queue
        while at < end:
            try:
                length, head, number, tail, size, batch, magic, producer_id, messages = form.unpack(data, at)
            except struct.error:
                break
            stop: int = at + _LENGTH_BYTES + length
            if (
                tail != form.tail
                or head != form.head
                or producer_id != form.producer_id
                or length - batch != form.around
                or stop > end
                or data[stop - 3 : stop] != _NO_TAGS
                or magic != _MAGIC
                or messages < 0
            ):
                break
            if batch != self._batch or size != self._size:
                if batch < _HEADER_REST or length > self._limit:
                    break
                if size != write_uvarint(batch + _BATCH_START + 1):
                    break
                self._batch, self._size = batch, size
            if len(owed) >= outstanding.most:
                break
            gates = self._gates.exempt if connection.exempt else self._gates.live
            gate = attached.gate
            largest = batch - _HEADER_REST
            if gates.get(self._topic) is not gate or largest > attached.size_limit:
                break
            if gaps and connection.identity in gaps:
                break
            attached.last_ns = now_ns
            operation.messages = messages
            operation.bytes = batch + _BATCH_START
            operation.largest = largest
            operation.reliable = form.reliable
            if gate.reads:
                if length > SHORT_BYTES or not self._read(data, stop - len(_NO_TAGS)):
                    break
                decision = gate.publish(operation, now_ns)
                operation.contents = ()
            else:
                decision = gate.publish(operation, now_ns)
            if decision is not None and (decision := allowed(decision)) is not None:
                self.decision = decision
                break
            if form.reliable:
                glance = self._glance
                owed.append(number if glance is None else (number, glance))
            at = stop
        return at

    def _read(self, data: bytes, end: int) -> bool:
        """Read the messages of a request for its policies; False if that takes the slow path.

        :param end: where its batch ends.
        """
        operation, reads = self._attached.operation, self._attached.gate.reads
        contents = self._reading.few(data, ((end - operation.bytes, end),), operation.messages, reads)
        if contents is not None:
            operation.contents, operation.unreadable = contents
        return contents is not None


def is_repeatable(request: ProduceRequest) -> bool:
    """Whether requests like this one can be passed by `Repeated`."""
    if request.head.version < FIRST_FLEXIBLE or len(request.topics) != 1:
        return False
    topic = request.topics[0]
    one_batch = len(topic.partitions) == 1 and topic.largest_batch == topic.bytes - BATCH_OVERHEAD
    return one_batch and request.frame[topic.start] <= _ONE_BYTE
