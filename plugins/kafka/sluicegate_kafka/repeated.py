"""Produce requests that look like the one before: most of them do, down to the byte.

A producer that sends one batch at a time to one topic repeats everything in front of the batch but the
correlation id: versions, client id, transaction, acks, topic. Comparing those bytes with the last request's
costs a tenth of reading them again. Whatever is not exactly alike is read the long way.
"""

import struct

from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.codec.primitives import MALFORMED, read_uvarint
from sluicegate_kafka.codec.produce import ProduceRequest
from sluicegate_kafka.codec.records import measure_records

_FIRST_FLEXIBLE = 9
_CORRELATION_ID_END = 8
_ONE_BYTE = 0x7F
_INDEX_BYTES = 4
_NO_TAGS = b"\0\0\0"
"""Empty tagged fields of the partition, the topic and the request: what follows the one batch."""

Measured = tuple[int, int, int, int]
"""Records, bytes of the batch, its payload bytes, and the producer id."""


class Form:
    """What a request and the one before it have in common, if each names one topic and one partition."""

    __slots__ = ("acks", "client_id", "head", "size", "tail", "topic", "version")

    def __init__(self, frame: bytes, head: RequestHead, request: ProduceRequest, end: int) -> None:
        self.topic = request.topics[0].name
        self.client_id = head.client_id
        self.version = head.version
        self.acks = request.acks
        self.head = frame[head.start : head.start + 4]
        self.tail = frame[head.start + _CORRELATION_ID_END : end]
        self.size = end - head.start

    def measure(self, data: bytes, start: int, stop: int) -> Measured | None:
        """What a request carries that has this form; None if it has not, or if anything is odd.

        :param data: a buffer that holds the request.
        :param start: where it starts, after its length.
        :param stop: where it ends.
        """
        at = start + self.size
        if data[start + _CORRELATION_ID_END : at] != self.tail or data[start : start + 4] != self.head:
            return None
        try:
            size, at = read_uvarint(data, at + _INDEX_BYTES)
            end = at + size - 1
            if end <= at or data[end:stop] != _NO_TAGS:
                return None
            messages, payload, _, producer = measure_records(data, at, end)
        except (*MALFORMED, ProtocolError, struct.error):
            return None  # the long way tells what is wrong
        return messages, end - at, payload, producer


def form_of(frame: bytes, head: RequestHead, request: ProduceRequest) -> Form | None:
    """The form of a request; None if requests like it must each be read.

    :param frame: the buffer that the request was read from.
    :param head: its header.
    :param request: what was read.
    """
    if request.version < _FIRST_FLEXIBLE or len(request.topics) != 1:
        return None
    topic = request.topics[0]
    name_size = frame[topic.start]
    if len(topic.partitions) != 1 or name_size > _ONE_BYTE:
        return None
    # The topic's entry: its name with one byte of length, then the array length of its one partition.
    return Form(frame, head, request, topic.start + name_size + 1)
