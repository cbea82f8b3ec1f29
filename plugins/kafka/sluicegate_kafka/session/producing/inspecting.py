"""Measures compressed batches, where a policy says `inspect: true`.

The work is done in slices, which take turns with those of all other clients, and it ends with its connection.
A small batch is unpacked in the event loop, a larger one in a thread. Records are always walked in the loop:
Python code in a thread would keep the loop waiting for longer.
"""

import sys
from dataclasses import dataclass
from typing import TypeVar

from sluicegate.engine.budget import Budget
from sluicegate.engine.gate import Gate
from sluicegate.sessions.pieces import NoRoomError
from sluicegate.sessions.work import TURN, Ask, Turn, Work
from sluicegate_kafka.codec import errors
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.produce_requests import Inspected, ProduceRequest, ProduceTopic
from sluicegate_kafka.codec.produce_responses import refusal_response
from sluicegate_kafka.codec.record_walk import Slice, largest_message
from sluicegate_kafka.codec.records import (
    BATCH_OVERHEAD,
    COMPRESSION_MASK,
    Batch,
    batch_payload_size,
    walk_batches,
)
from sluicegate_kafka.codec.unpacked_walk import UnpackedWalk
from sluicegate_kafka.events import KafkaEvent
from sluicegate_kafka.session.producing.unpacking import Unpacking
from sluicegate_kafka.session.requests.connection import Connection
from sluicegate_kafka.session.requests.outcomes import Answer
from sluicegate_kafka.session.shared.shared import Shared

MAX_RECORDS = 1_000_000
"""Records of one request that are measured."""
MAX_WORK = 8_000_000
"""What measuring one request may cost, in records passed over: about a second, or two million headers."""
_AT_ONCE = 16 * 1024
"""Packed bytes that are unpacked in the loop: a millisecond, even if they are nothing but empty frames."""
_SPARE_PARTS = 4
"""Inspections leave such a part of the budget to all that is not one."""

_Result = TypeVar("_Result")
"""Yields for the next turn, or for a thread to unpack."""


class NotNowError(Exception):
    """There is no memory or time to inspect a request."""


@dataclass(slots=True)
class Allowance:
    """What one request may still cost: many batches may not cost more than one large one."""

    nbytes: int
    """Bytes of records."""
    records: int
    work: int
    """In records passed over."""

    def use_up(self) -> None:
        """Use up the allowance: a failed batch may have cost anything up to the bound."""
        self.nbytes = self.records = self.work = 0


def inspects(gate: Gate) -> bool:
    """Whether a topic's policies inspect compressed batches."""
    return gate.policies.values.get("inspect") is True


class Measuring:
    """What measuring the records of one connection takes, one request after the other.

    :param budget: memory that all clients may take together.
    """

    __slots__ = ("_budget", "nbytes", "slice")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.slice = Slice()
        """The slice that walks over its records are part of."""
        self.nbytes = 0
        """Memory that the inspection of a compressed batch takes."""

    def need(self, nbytes: int) -> None:
        """Take more memory, if that is needed.

        :raises NotNowError: if there is none.
        """
        more = nbytes - self.nbytes
        if more > 0:
            if not self._budget.take(more, spare=self._budget.limit // _SPARE_PARTS):
                raise NotNowError
            self.nbytes = nbytes

    def free(self, down_to: int = 0) -> None:
        """Give memory back.

        :param down_to: bytes that stay taken.
        """
        self._budget.give(self.nbytes - down_to)
        self.nbytes = down_to


class Inspection:
    """Measures the compressed batches of one request.

    :param shared: the front's state.
    :param connection: where the request comes from.
    :param measuring: of that connection.
    :param turn: the turn that the first slice runs in.
    """

    def __init__(self, shared: Shared, connection: Connection, measuring: Measuring, turn: Turn) -> None:
        self._shared = shared
        self._connection = connection
        self.measuring = measuring
        self._turn = turn
        self._until_ns = turn.now_ns + shared.limits.max_hold_ns
        self.allowance = Allowance(shared.limits.max_frame_bytes, MAX_RECORDS, MAX_WORK)

    def of(self, request: ProduceRequest) -> Work[None]:
        """Measure the topics whose policies say so.

        :raises NotNowError: if the request cannot be inspected now.
        """
        was_needed = False
        for index, topic in enumerate(request.topics):
            gate = self._shared.gate(topic.name, self._connection.exempt, self._turn.now_ns)
            if inspects(gate) and _is_compressed(topic):
                policies = gate.policies_for(self._connection.principal, self._connection.client)
                limit = int(policies.number("max_message_size")) or sys.maxsize
                inspected = yield from self._inspected(topic, limit)
                request.topics[index] = topic._replace(inspected=inspected)
                was_needed = True
        if was_needed:
            self._shared.count(KafkaEvent.PRODUCE_INSPECTED)

    def _inspected(self, topic: ProduceTopic, limit: int) -> Work[Inspected]:
        """Measure all batches of a topic."""
        largest = 0
        try:
            for start, end in topic.records:
                for batch in walk_batches(topic.frame, start, end):
                    largest = max(largest, (yield from self._largest(topic.frame, batch, limit)))
                    yield from self.measuring.slice.end()
        except ProtocolError as error:
            self.allowance.use_up()
            return Inspected(largest, error.reason)
        return Inspected(largest, "")

    def _largest(self, frame: bytes, batch: Batch, limit: int) -> Work[int]:
        size = batch_payload_size(batch)
        if not batch.attributes & COMPRESSION_MASK:
            if size <= limit:
                return size
            span = batch.offset, batch.offset + batch.size
            return (yield from largest_message(frame, [span], limit, self.measuring.slice))
        allowance = self.allowance
        if not allowance.nbytes:
            raise ProtocolError("the batches of this request exceed what is unpacked")
        if batch.record_count > allowance.records:
            raise ProtocolError(
                f"{batch.record_count} records in a batch, but at most {allowance.records} more of its "
                "request are inspected"
            )
        walk = UnpackedWalk(limit, batch.record_count, self.measuring.slice, allowance.work, allowance.nbytes)
        yield from self._walk(frame, batch, walk)
        allowance.nbytes -= walk.nbytes
        allowance.records -= batch.record_count
        allowance.work = walk.work
        return walk.largest

    def _walk(self, frame: bytes, batch: Batch, walk: UnpackedWalk) -> Work[None]:
        """Unpack a batch piece by piece; the memory that this takes counts as the connection's."""
        packed = frame[batch.offset + BATCH_OVERHEAD : batch.offset + batch.size]
        unpacking = Unpacking(batch.attributes & COMPRESSION_MASK, packed, self.allowance.nbytes)
        try:
            while not unpacking.is_done:
                yield from self._next_piece(unpacking, in_loop=len(packed) <= _AT_ONCE)
                self.measuring.need(unpacking.memory(walk.nbytes) + walk.kept_bytes)
                yield from walk.over_piece(unpacking.piece)
                if walk.largest > walk.limit:
                    return
                if not unpacking.is_done:
                    yield None
            yield from walk.end()
        finally:
            self.measuring.free()

    def plain(self, frame: bytes, batch: Batch) -> Work[tuple[bytes, int, int]]:
        """The records of a batch, unpacked if they are compressed.

        The memory for that stays taken until `measuring` is freed.

        :return: what holds them, where they begin, and the offset after them.
        :raises ProtocolError: if they cannot be unpacked.
        :raises NotNowError: if there is no memory or time for that.
        """
        begin, end = batch.offset + BATCH_OVERHEAD, batch.offset + batch.size
        codec = batch.attributes & COMPRESSION_MASK
        if not codec:
            return frame, begin, end
        unpacking = Unpacking(codec, frame[begin:end], self.allowance.nbytes)
        pieces = bytearray()
        before = self.measuring.nbytes
        while not unpacking.is_done:
            yield from self._next_piece(unpacking, in_loop=end - begin <= _AT_ONCE)
            pieces += unpacking.piece
            # The pieces, and a copy of all of them at the end.
            self.measuring.need(before + unpacking.memory(len(pieces)) + 2 * len(pieces))
            if not unpacking.is_done:
                yield TURN
        self.allowance.nbytes -= len(pieces)
        return bytes(pieces), 0, len(pieces)

    def _next_piece(self, unpacking: Unpacking, *, in_loop: bool) -> Work[None]:
        if self._turn.now_ns > self._until_ns:
            raise NotNowError
        if in_loop and Unpacking.is_loaded:
            unpacking.run()
        else:
            try:
                yield Ask(unpacking)
            except NoRoomError:
                raise
            except Exception as error:  # the front has failed
                raise NotNowError from error
        if unpacking.problem:
            raise ProtocolError(unpacking.problem)


def refuse_for_now(shared: Shared, connection: Connection, request: ProduceRequest) -> Answer | None:
    """Refuse a request that cannot be inspected or buffered now, with an error that its client retries."""
    shared.count(KafkaEvent.INSPECTION_FAILED)
    if request.acks == 0:
        return None
    text = "the records cannot be inspected at the moment; try again"
    code = errors.NOT_ENOUGH_REPLICAS
    refused = [(topic.name, topic.partitions, code, text) for topic in request.topics]
    for topic in request.topics:
        shared.client_gaps.postponed(connection, topic)
    version, correlation_id = request.head.version, request.head.correlation_id
    return Answer(refusal_response(version, correlation_id, refused, throttle_ms=0))


def _is_compressed(topic: ProduceTopic) -> bool:
    return any(
        batch.attributes & COMPRESSION_MASK
        for span in topic.records
        for batch in walk_batches(topic.frame, *span)
    )
