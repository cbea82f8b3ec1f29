"""Measures compressed batches, where a policy says `inspect: true`.

Unpacking takes time, so a thread does it, and the request waits as for any other answer of the front.
"""

from collections.abc import Callable, Mapping
from functools import partial

from sluicegate.engine.gate import Gate
from sluicegate_kafka.codec import errors
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.codec.produce_requests import Inspected, ProduceRequest, ProduceTopic
from sluicegate_kafka.codec.produce_responses import refusal_response
from sluicegate_kafka.codec.records import (
    BATCH_OVERHEAD,
    COMPRESSION_MASK,
    Batch,
    largest_record,
    walk_batches,
    walk_records,
)
from sluicegate_kafka.session.requests.connection import Connection
from sluicegate_kafka.session.requests.suspended import Suspended
from sluicegate_kafka.session.shared.shared import Shared

MAX_RECORDS = 1_000_000
"""Records of one request that are measured, at about half a microsecond each."""


class Allowance:
    """The bytes that one request may unpack: many batches may not cost more than one large one.

    :param nbytes: bytes of records.
    """

    __slots__ = ("nbytes", "records")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.records = MAX_RECORDS

    def use_up(self) -> None:
        """Use up the allowance: a failed batch may have cost anything up to the bound."""
        self.nbytes = self.records = 0


def inspects(gate: Gate) -> bool:
    """Whether a topic's policies inspect compressed batches."""
    return gate.policies.values.get("inspect") is True


class Inspection:
    """Asks the front to measure the compressed batches of a request.

    :param topics: those topics, by their places in the request.
    :param limit: bytes that they may unpack to together.
    """

    __slots__ = ("_limit", "_topics", "found")

    def __init__(self, topics: Mapping[int, ProduceTopic], limit: int) -> None:
        self._topics = topics
        self._limit = limit
        self.found: dict[int, Inspected] | None = None
        """The answer by place; None before `run` has ended."""

    def run(self) -> None:
        """Unpack and measure; to be called in a thread."""
        allowance = Allowance(self._limit)
        self.found = {place: inspected(topic, allowance) for place, topic in self._topics.items()}


def inspected(topic: ProduceTopic, allowance: Allowance) -> Inspected:
    """Measure all batches of a topic in a request.

    :param allowance: what may still be unpacked of the request.
    """
    largest = 0
    try:
        for start, end in topic.records:
            for batch in walk_batches(topic.frame, start, end):
                largest = max(largest, _largest(topic.frame, batch, allowance))
    except ProtocolError as error:
        allowance.use_up()
        return Inspected(largest, error.reason)
    return Inspected(largest, "")


def _largest(frame: bytes, batch: Batch, allowance: Allowance) -> int:
    end = batch.offset + batch.size
    codec = batch.attributes & COMPRESSION_MASK
    if not codec:
        return largest_record(frame, batch.offset, end)
    if not allowance.nbytes:
        raise ProtocolError("the batches of this request exceed what is unpacked")
    if batch.record_count > allowance.records:
        raise ProtocolError(
            f"{batch.record_count} records in a batch, but at most {allowance.records} more of its request "
            "are inspected"
        )
    from sluicegate_kafka.codec.compression import unpacked  # only gates that need it load pyarrow for it

    records = unpacked(codec, frame[batch.offset + BATCH_OVERHEAD : end], allowance.nbytes)
    allowance.nbytes -= len(records)
    allowance.records -= batch.record_count
    count, largest = walk_records(records, 0, len(records), batch.record_count)
    if count != batch.record_count:
        raise ProtocolError(f"{count} records in a batch that claims {batch.record_count}")
    return largest


Go = Callable[[ProduceRequest, int], bool | Suspended]
"""`(request with the sizes of its compressed batches, now_ns)`: decides a Produce request."""


def after_inspection(
    shared: Shared, connection: Connection, request: ProduceRequest, go: Go, now_ns: int
) -> Suspended | None:
    """Make a request wait for an inspection; None if none is needed.

    :param go: decides the request once its content is known.
    :param now_ns: monotonic time.
    """
    topics = {
        place: topic
        for place, topic in enumerate(request.topics)
        if inspects(shared.gate(topic.name, connection.exempt, now_ns)) and _is_compressed(topic)
    }
    if not topics:
        return None
    inspection = Inspection(topics, shared.max_frame_bytes)
    refuse = partial(refuse_for_now, shared, connection, request)

    def retry(frame: bytes, head: RequestHead, now_ns: int) -> bool | Suspended:
        if inspection.found is None:
            refuse(now_ns)
            return False
        shared.counts["produce_inspected"] += 1
        return go(with_findings(request, inspection.found), now_ns)

    return Suspended(retry, request.frame, request.head, question=inspection, refuse=refuse)


def refuse_for_now(shared: Shared, connection: Connection, request: ProduceRequest, now_ns: int) -> None:
    """Refuse a request that cannot be inspected or buffered now, with an error that its client retries."""
    shared.counts["inspection_failed"] += 1
    if request.acks != 0:
        text = "the records cannot be inspected at the moment; try again"
        code = errors.NOT_ENOUGH_REPLICAS
        refused = [(topic.name, topic.partitions, code, text) for topic in request.topics]
        version, correlation_id = request.head.version, request.head.correlation_id
        connection.outstanding.answer(refusal_response(version, correlation_id, refused, throttle_ms=0))


def _is_compressed(topic: ProduceTopic) -> bool:
    return any(
        batch.attributes & COMPRESSION_MASK
        for span in topic.records
        for batch in walk_batches(topic.frame, *span)
    )


def with_findings(request: ProduceRequest, found: Mapping[int, Inspected]) -> ProduceRequest:
    """The same request, with the measured sizes of its topics."""
    topics = [
        topic._replace(inspected=found[place]) if place in found else topic
        for place, topic in enumerate(request.topics)
    ]
    return request._replace(topics=topics)
