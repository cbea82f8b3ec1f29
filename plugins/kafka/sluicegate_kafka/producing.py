"""Produce requests: who publishes what, and whether it may.

What the gate allows goes on as the bytes that came. Anything else becomes an `Exchange`, which splits the
request by topic and puts the response together again.
"""

import sys

from sluicegate.broker import Buffer
from sluicegate.engine.gate import Gate
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import RequestHead, parse_request_head
from sluicegate_kafka.codec.primitives import with_length
from sluicegate_kafka.codec.produce import ProduceTopic, scan_produce
from sluicegate_kafka.codec.produce_responses import has_node_endpoints
from sluicegate_kafka.codec.records import largest_record
from sluicegate_kafka.connection import Connection, check_topics
from sluicegate_kafka.exchange import Exchange
from sluicegate_kafka.pending import Glance
from sluicegate_kafka.repeated import Form, form_of
from sluicegate_kafka.sequences import Sequences
from sluicegate_kafka.shared import Shared
from sluicegate_kafka.suspended import Suspended

_FIRST_WITH_ENDPOINTS = 10
"""Produce version whose response may carry broker addresses (KIP-951)."""
_MAX_ATTACHED = 10_000
"""Producers on topics that one connection may have; a client may name as many producer ids as it likes."""


class Attached:
    """One producer on one topic, as this connection knows it."""

    __slots__ = ("delayed", "gate", "last_ns", "operation", "size_limit")

    def __init__(self, operation: Operation, gate: Gate, now_ns: int) -> None:
        self.operation = operation
        self.last_ns = now_ns
        self.use(gate)

    def use(self, gate: Gate) -> None:
        """Take over what a newly compiled gate says."""
        self.gate = gate
        self.size_limit = int(gate.policies.number("max_message_size")) or sys.maxsize
        self.delayed = gate.delay is not None


class Producing:
    """The publishing side of one connection."""

    __slots__ = ("_attached", "_attaching", "_connection", "_form", "_glances", "_shared")

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection
        self._attached: dict[tuple[str, int], Attached] = {}
        self._attaching: dict[tuple[str, int], Operation] = {}
        self._glances: dict[int, Glance] = {}
        self._form: Form | None = None

    def again(
        self, data: bytes, start: int, stop: int, correlation_id: int, now_ns: int
    ) -> bool | Suspended | None:
        """Decide a Produce request that looks like the one before; None if it is to be read the long way.

        :param data: a buffer that holds the request.
        :param start: where it starts, after its length.
        :param stop: where it ends.
        :param correlation_id: of the request.
        :param now_ns: monotonic time.
        """
        form = self._form
        measured = form.measure(data, start, stop) if form is not None else None
        if form is None or measured is None or self._sequences is not None:
            return None
        messages, nbytes, largest, producer_id = measured
        connection = self._connection
        attached = self._attached.get((form.topic, producer_id))
        gate = self._shared.gate(form.topic, connection.exempt, now_ns)
        if attached is None or attached.gate is not gate or attached.delayed or largest > attached.size_limit:
            return None
        connection.client_id = form.client_id
        attached.last_ns = now_ns
        operation = attached.operation
        operation.messages = messages
        operation.bytes = nbytes
        operation.largest = largest
        operation.reliable = form.acks != 0
        decision = gate.publish(operation, now_ns)
        if decision is None:
            self._expect(form.acks, form.version, correlation_id)
            return True
        head = parse_request_head(data, start, stop)
        request = scan_produce(data, head)
        return Exchange(self._shared, connection, self, data, head, request).start([decision], now_ns)

    def request(self, frame: bytes, head: RequestHead, now_ns: int) -> bool | Suspended:
        """Decide a Produce request topic by topic."""
        request = scan_produce(frame, head)
        original = frame
        sequences = self._sequences
        if sequences is not None:
            frame, head, request = sequences.mend(frame, head, request)
            if not sequences.gaps:
                self._shared.sequences.pop(self._connection.identity, None)
        topics = request.topics
        decisions: list[Decision | None]
        if len(topics) == 1:
            decision = self.decide(topics[0], request.acks, now_ns)
            if decision is None and frame is original:
                self._form = form_of(frame, head, request)
                self._expect(request.acks, head.version, head.correlation_id)
                return True
            decisions = [decision]
        else:
            check_topics(len(topics))
            if len({topic.name for topic in topics}) != len(topics):
                raise ProtocolError("a topic is named twice in one Produce request")
            decisions = [self.decide(topic, request.acks, now_ns) for topic in topics]
        if frame is original and not any(decisions):
            self._expect(request.acks, head.version, head.correlation_id)
            return True
        return Exchange(self._shared, self._connection, self, frame, head, request).start(decisions, now_ns)

    @property
    def _sequences(self) -> Sequences | None:
        """Gaps in this client's numbers, if it has any."""
        known = self._shared.sequences
        return known.get(self._connection.identity) if known else None

    def _expect(self, acks: int, version: int, correlation_id: int) -> None:
        """Note the response that the broker now owes; acks=0 has none."""
        if acks == 0:
            return
        if version < _FIRST_WITH_ENDPOINTS:
            self._connection.outstanding.expect(correlation_id)
            return
        glance = self._glances.get(version)
        if glance is None:
            glance = self._glances[version] = self._glance(version)
        self._connection.outstanding.expect((correlation_id, glance))

    def _glance(self, version: int) -> Glance:
        """Responses of this version pass unless there are broker addresses in them."""

        def readdress(frame: bytes, now_ns: int) -> Buffer:
            return with_length([self._shared.readdress_produce(frame, version)])

        return Glance(lambda frame: not has_node_endpoints(frame, version), readdress)

    def decide(self, topic: ProduceTopic, acks: int, now_ns: int) -> Decision | None:
        """Ask the topic's gate; None if this topic of the request may go on.

        :param topic: the topic's part of the request.
        :param acks: the request's acks; with 0 nobody waits for an answer.
        :param now_ns: monotonic time.
        """
        sequences = self._sequences
        before = sequences.decided(topic) if sequences is not None else None
        if before is not None:
            return before
        key = (topic.name, topic.producer_id)
        gate = self._shared.gate(key[0], self._connection.exempt, now_ns)
        attached = self._attached.get(key)
        if attached is None:
            # One that is held is asked again as the same operation, or it would be counted as another.
            operation = self._attaching.pop(key, None) or self._operation(topic)
            refused = gate.decide(operation, now_ns)
            if refused is not None:
                if refused.action is Action.DELAY:
                    self._attaching[key] = operation
                return refused
            operation.kind = OperationKind.PUBLISH
            if len(self._attached) >= _MAX_ATTACHED:
                self._detach(next(iter(self._attached)), now_ns)
            attached = self._attached[key] = Attached(operation, gate, now_ns)
        elif attached.gate is not gate:
            attached.use(gate)
        attached.last_ns = now_ns
        operation = attached.operation
        operation.messages = topic.messages
        operation.bytes = topic.bytes
        operation.largest = topic.largest_batch
        operation.reliable = acks != 0
        if topic.largest_batch > attached.size_limit:
            operation.largest = max(largest_record(topic.frame, *span) for span in topic.records)
        if attached.delayed:
            operation.ahead_ms = topic.max_timestamp - self._shared.wall_ms(now_ns)
        return gate.publish(operation, now_ns)

    def abandon(self, topic: ProduceTopic, now_ns: int) -> None:
        """A held topic of a request will not be forwarded."""
        self._attaching.pop((topic.name, topic.producer_id), None)
        attached = self._attached.get((topic.name, topic.producer_id))
        if attached is not None:
            attached.gate.abandon(attached.operation, now_ns)

    def _operation(self, topic: ProduceTopic) -> Operation:
        """A producer is its producer id where it has one, else the client it runs in."""
        connection = self._connection
        producer_id = topic.producer_id
        return Operation(
            OperationKind.ATTACH_PRODUCER,
            topic.name,
            principal=connection.principal,
            client=connection.client,
            producer=f"id {producer_id}" if producer_id >= 0 else "client " + "/".join(connection.identity),
        )

    def release_idle(self, now_ns: int) -> None:
        """Detach producers that have not published for the configured time."""
        oldest = now_ns - self._shared.producer_idle_ns
        for key in [key for key, attached in self._attached.items() if attached.last_ns < oldest]:
            self._detach(key, now_ns)

    def closed(self, now_ns: int) -> None:
        """Detach all producers of this connection."""
        for key in list(self._attached):
            self._detach(key, now_ns)

    def _detach(self, key: tuple[str, int], now_ns: int) -> None:
        attached = self._attached.pop(key)
        attached.gate.abandon(attached.operation, now_ns)
        attached.gate.detach(attached.operation)
