"""Fetch: what a consumer may receive now, cut at the boundaries of record batches.

The broker's response is unchanged up to the first batch that is not due yet or over the rate. A
response that is empty because of that waits until something is due, at most the time that the client
itself allows the broker to wait. So does a response that only refuses topics. Otherwise the client would
repeat the request at once, forever.
"""

from functools import partial
from struct import Struct

from sluicegate.broker import Buffer
from sluicegate.engine.delivery_time import DelayRule, due_ms
from sluicegate.engine.gate import Gate, allowed
from sluicegate.model import Breakage, Operation, OperationKind
from sluicegate.sessions.work import Turn
from sluicegate_kafka.codec import errors
from sluicegate_kafka.codec.fetch_requests import fetch_request_slices
from sluicegate_kafka.codec.fetch_responses import (
    FetchPartition,
    FetchTopic,
    fetch_response_slices,
    rebuilding_slices,
)
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.codec.records import CONTROL, LOG_APPEND_TIME, Batch, iter_batches
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE, Slices, at_once
from sluicegate_kafka.events import KafkaEvent
from sluicegate_kafka.session.fetching.fetched_topics import Reading
from sluicegate_kafka.session.requests.connection import TOPICS_PER_SLICE, Connection, check_topics
from sluicegate_kafka.session.requests.outcomes import Expected, Finished, Later, Pass, in_slices
from sluicegate_kafka.session.shared.shared import Shared

_base_offset = Struct(">q").unpack_from
_high_watermark = Struct(">6xq").unpack_from
"""Behind a partition's index and error code."""
_SHORTEST_HOLD_NS = 10_000_000
_SMALL = 256
"""Bytes of a request that is read at once: it has room for some fifty short names."""
_BATCH_WORK = _TOPIC_WORK = 5
"""Multiples of the work of an empty partition."""
_NEW_TOPIC_WORK = ENTRIES_PER_SLICE // TOPICS_PER_SLICE
_NS_PER_MS = 1_000_000


class Fetching:
    """The consuming side of one connection."""

    __slots__ = (
        "_connection",
        "_held",
        "_left_out",
        "_operations",
        "_refused",
        "_shared",
        "reading",
    )

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection
        self.reading = Reading(shared, connection)
        self._operations: dict[str, Operation] = {}
        """One for each topic, so that a topic that is held again and again is recorded once."""
        self._refused = self.reading.refused
        self._held = self.reading.held
        self._left_out: dict[str, int] = {}
        """The partition of a topic that comes first next time, where a rate left one with nothing."""

    def request(self, frame: bytes, head: RequestHead, now_ns: int) -> Pass | Later[Pass]:
        """Forward a Fetch; its response is read only if some policy may ask about it."""
        if self._shared.policed.reads_fetches or self._shared.policed.counts_consumers:
            if head.end - head.start <= _SMALL:
                return at_once(self._request_slices(Turn(now_ns), frame, head))
            return lambda turn: self._request_slices(turn, frame, head)
        return Pass(head.correlation_id)

    def _request_slices(self, turn: Turn, frame: bytes, head: RequestHead) -> Slices[Pass]:
        request = yield from fetch_request_slices(frame, head)
        check_topics(len(request.topics))
        yield from self.reading.request(request, turn)
        expected: int | Expected = head.correlation_id
        if self._shared.policed.reads_fetches or self._refused or self._held:
            make = partial(self.response, head.version, request.max_wait_ms, turn.now_ns)
            expected = Expected(head.correlation_id, in_slices(make))
        return Pass(expected)

    def parting(self, now_ns: int) -> Slices[None]:
        """The connection is closed: release what it took."""
        for count, (topic, operation) in enumerate(tuple(self._operations.items()), 1):
            if operation.held_ns:
                self._shared.gate(topic, self._connection.exempt, now_ns).abandon(operation, now_ns)
            if count % TOPICS_PER_SLICE == 0:
                yield
        yield from self.reading.parting(now_ns)

    def response(
        self, version: int, max_wait_ms: int, asked_ns: int, turn: Turn, frame: bytes
    ) -> Slices[Buffer | Finished]:
        """Cut a Fetch response down to what may be delivered now; in slices."""
        response = yield from fetch_response_slices(frame, version)
        cut = _Cut()
        asked_ms = self._shared.wall_ms(asked_ns)
        gates = self._shared.gates.exempt if self._connection.exempt else self._shared.gates.live
        for topic_index, topic in enumerate(response.topics):
            if cut.is_enough(_TOPIC_WORK if topic.name in gates else _NEW_TOPIC_WORK):
                yield
            now_ns = turn.now_ns
            if topic.name in self._refused:
                yield from self._refuse(topic, topic_index, cut)
                continue
            if topic.name in self._held:
                yield from self._withhold(topic, topic_index, cut)
                continue
            gate = self._shared.gate(topic.name, self._connection.exempt, now_ns)
            if gate.delay is None and not gate.asks(OperationKind.DISPATCH):
                cut.delivers |= any(p.error or p.records_end > p.records_start for p in topic.partitions)
                continue
            if gate.delay is not None:
                yield from self._note_ends(frame, topic, gate.delay, asked_ms, turn)
            yield from self._cut_topic(frame, gate, topic, topic_index, cut, turn)
        if not cut.ends and not cut.errors:
            return frame
        rebuilt = yield from rebuilding_slices(frame, response, cut.ends, cut.errors)
        if cut.delivers or response.error:
            return rebuilt
        now_ns = turn.now_ns
        latest_ns = asked_ns + max_wait_ms * _NS_PER_MS
        at_ns = min(now_ns + cut.wait_ns, latest_ns)
        return Finished(rebuilt, max(at_ns, now_ns + _SHORTEST_HOLD_NS))

    @staticmethod
    def _refuse(topic: FetchTopic, topic_index: int, cut: "_Cut") -> Slices[None]:
        """Refuse a topic that the connection may not consume."""
        for index in range(len(topic.partitions)):
            if cut.is_enough():
                yield
            cut.errors[topic_index, index] = errors.TOPIC_AUTHORIZATION_FAILED

    def _withhold(self, topic: FetchTopic, topic_index: int, cut: "_Cut") -> Slices[None]:
        """Withhold a topic whose consumers have to attach one by one."""
        for index, partition in enumerate(topic.partitions):
            if cut.is_enough():
                yield
            cut.delivers |= bool(partition.error)
            if partition.records_end > partition.records_start:
                cut.ends[topic_index, index] = partition.records_start
        cut.wait_ns = min(cut.wait_ns, self._held[topic.name][1])

    def _note_ends(
        self, frame: bytes, topic: FetchTopic, rule: DelayRule, asked_ms: int, turn: Turn
    ) -> Slices[None]:
        """Record the high watermark of each partition: records before it have arrived."""
        arrivals = self._shared.learned.arrivals
        for count, partition in enumerate(topic.partitions, 1):
            if count % ENTRIES_PER_SLICE == 0:
                yield
            now_ms = self._shared.wall_ms(turn.now_ns)
            at = (topic.name, partition.index)
            if partition.error == errors.UNKNOWN_TOPIC_OR_PARTITION:
                arrivals.forget(at)
            elif partition.error == errors.NONE:
                (end,) = _high_watermark(frame, partition.entry_start)
                if end >= 0:
                    arrivals.note(at, end, end, asked_ms, now_ms, rule.fixed_ms)

    def _cut_topic(
        self, frame: bytes, gate: Gate, topic: FetchTopic, topic_index: int, cut: "_Cut", turn: Turn
    ) -> Slices[None]:
        partitions = yield from self._in_order(topic, cut)
        if not partitions:  # so nothing is kept for a topic name that a client invents
            return
        operation = self._operation(topic.name, turn.now_ns)
        limited = False
        left_out: int | None = None
        for index, partition in partitions:
            end = partition.records_start
            if limited:
                if cut.is_enough():
                    yield
            else:
                end, limited = yield from self._deliverable(frame, gate, operation, partition, cut, turn)
            if end < partition.records_end:
                cut.ends[topic_index, index] = end
            if end > partition.records_start:
                cut.delivers = True
            elif limited and left_out is None:
                left_out = partition.index
        if left_out is None:
            self._left_out.pop(topic.name, None)
        else:
            self._left_out[topic.name] = left_out

    def _operation(self, topic: str, now_ns: int) -> Operation:
        """The operation that is decided for each batch of a topic."""
        connection = self._connection
        names = self.reading.subscriptions(topic, now_ns)
        if len(names) > 1:
            self._shared.count(KafkaEvent.FETCH_GROUP_AMBIGUOUS)
        operation = self._operations.get(topic)
        if operation is None:
            operation = self._operations[topic] = Operation(OperationKind.DISPATCH, topic)
        operation.principal = connection.principal
        operation.client = connection.client
        operation.subscription = names[0]
        operation.also = names[1:]
        return operation

    def _in_order(self, topic: FetchTopic, cut: "_Cut") -> Slices[list[tuple[int, FetchPartition]]]:
        """Partitions with records, and their indexes; the one that was left out last time comes first."""
        partitions: list[tuple[int, FetchPartition]] = []
        for start in range(0, len(topic.partitions), ENTRIES_PER_SLICE):
            if start:
                yield
            some = topic.partitions[start : start + ENTRIES_PER_SLICE]
            cut.delivers |= any(partition.error for partition in some)
            partitions += [
                (index, partition)
                for index, partition in enumerate(some, start)
                if partition.records_end > partition.records_start
            ]
        left_out = self._left_out.get(topic.name)
        if left_out is None:
            return partitions
        first = next((at for at, (_, partition) in enumerate(partitions) if partition.index == left_out), 0)
        return partitions[first:] + partitions[:first]

    def _deliverable(
        self,
        frame: bytes,
        gate: Gate,
        operation: Operation,
        partition: FetchPartition,
        cut: "_Cut",
        turn: Turn,
    ) -> Slices[tuple[int, bool]]:
        """Where the batches that may be delivered end, and whether a rate stopped them."""
        end = partition.records_start
        for batch in iter_batches(frame, partition.records_start, partition.records_end):
            if cut.is_enough(_BATCH_WORK):
                yield
            now_ns = turn.now_ns
            if gate.delay is not None:
                wait_ms = self._due_in_ms(frame, gate.topic.full, gate.delay, partition.index, batch, now_ns)
                if wait_ms > 0:
                    cut.wait_ns = min(cut.wait_ns, wait_ms * _NS_PER_MS)
                    return end, False
            if not batch.attributes & CONTROL:
                operation.messages = batch.record_count
                operation.bytes = batch.size
                decision = gate.dispatch(operation, now_ns)
                if decision is not None and allowed(decision) is not None:
                    if decision.breaks is Breakage.CONNECTION:
                        self._connection.break_off(decision)
                    cut.wait_ns = min(cut.wait_ns, decision.delay_ns)
                    return end, True
            end = batch.offset + batch.size
        return partition.records_end, False

    def _due_in_ms(
        self, frame: bytes, topic: str, rule: DelayRule, partition: int, batch: Batch, now_ns: int
    ) -> int:
        """Milliseconds until a stored batch is due; 0 or less if it is."""
        wall_ms = self._shared.wall_ms(now_ns)
        stamp_ms = batch.max_timestamp
        if rule.clock == "publish_time" and (
            wall_ms - rule.max_behind_ms <= stamp_ms <= wall_ms + rule.max_ahead_ms
        ):
            return due_ms(rule, stamp_ms, wall_ms) - wall_ms  # its timestamp counts, not its arrival
        if batch.attributes & LOG_APPEND_TIME and 0 <= stamp_ms <= wall_ms + rule.max_ahead_ms:
            return due_ms(rule, stamp_ms, stamp_ms) - wall_ms  # the broker's own stamp
        offset = _base_offset(frame, batch.offset)[0]
        after_ms, by_ms = self._shared.learned.arrivals.of((topic, partition), offset, wall_ms)
        if rule.fixed_ms <= rule.max_behind_ms:
            after_ms = by_ms  # then distrust costs a short delay, and only once for records stored before
        return due_ms(rule, stamp_ms, by_ms, after_ms) - wall_ms


class _Cut:
    """The cuts of one response."""

    __slots__ = ("_work", "delivers", "ends", "errors", "wait_ns")

    def __init__(self) -> None:
        self.ends: dict[tuple[int, int], int] = {}
        self.errors: dict[tuple[int, int], int] = {}
        self.delivers = False
        self.wait_ns = 1_000_000_000
        self._work = 0

    def is_enough(self, work: int = 1) -> bool:
        """Whether to yield to others before this work.

        :param work: in units of the work for one partition.
        """
        self._work += work
        if self._work < ENTRIES_PER_SLICE:
            return False
        self._work = 0
        return True
