"""Produce requests: admission of producers, and of their records.

Admitted bytes are forwarded unchanged. Anything else becomes an `Exchange`, which splits the
request by topic and puts the response together again.
"""

from collections.abc import Sequence
from functools import partial

from sluicegate.broker import Buffer
from sluicegate.engine.gate import Gate, allowed
from sluicegate.engine.wait_queue import Hold
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate.sessions.admission import Admission
from sluicegate.sessions.pieces import NoRoomError
from sluicegate.sessions.work import TURN, Turn, Work
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.codec.primitives import with_length
from sluicegate_kafka.codec.produce_requests import (
    ProduceRequest,
    ProduceTopic,
    scan_plain,
    scan_slices,
)
from sluicegate_kafka.codec.produce_responses import (
    FIRST_WITH_ENDPOINTS,
    has_node_endpoints,
    plain_response_length,
)
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE, Slices, at_once
from sluicegate_kafka.events import KafkaEvent
from sluicegate_kafka.session.producing.contents import NOT_READ, SHORT_BYTES, Reading, check_names
from sluicegate_kafka.session.producing.exchange import Appends, Exchange, Unheard, awaited_appends
from sluicegate_kafka.session.producing.foretelling import Foretelling
from sluicegate_kafka.session.producing.inspecting import NotNowError, refuse_for_now
from sluicegate_kafka.session.producing.repeated import Attached, Repeated, is_repeatable
from sluicegate_kafka.session.requests.connection import (
    TOPIC_BYTES,
    TOPICS_PER_SLICE,
    Connection,
)
from sluicegate_kafka.session.requests.outcomes import Decided, Expected, Glance, Handle, Later, Owed, Pass
from sluicegate_kafka.session.shared.plain_producers import PlainProducer
from sluicegate_kafka.session.shared.sequences import Sequences
from sluicegate_kafka.session.shared.shared import Shared

_MAX_ATTACHED = 10_000
"""Producers on topics that one connection may have; a client may name as many producer ids as it likes."""

_MAX_PRODUCERS = 1_000
"""Producers with batches for one topic in one request; clients send for one."""
_DETACHED_PER_SLICE = 100
"""Producers that are detached in one slice, some 5 us each."""


class Producing:
    """The publishing side of one connection."""

    __slots__ = (
        "_attached",
        "_attaching",
        "_connection",
        "_glances",
        "_last",
        "_shared",
        "_unsent",
        "foretelling",
        "reading",
        "repeated",
        "unheard",
    )

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection
        self._attached: dict[tuple[str, int], Attached] = {}
        self._attaching: dict[tuple[str, int], Admission] = {}
        """Producers that wait."""
        self._unsent: set[tuple[str, int]] = set()
        """Producers that are attached, and of which nothing has been admitted yet."""
        self.unheard: Unheard = {}
        """Those of which something has been, and that the broker has not responded to yet."""
        self._glances: dict[tuple[int, int], Glance] = {}
        """By request version and length of a response that may pass unread."""
        self._last: Attached | None = None
        """Sender of the last slow-path request."""
        self.repeated: Repeated | None = None
        """Fast path for requests like the last one; None if that one is not repeatable."""
        self.reading = Reading(shared, connection)
        self.foretelling = Foretelling(shared, connection, self._attached, self.decide, self._owe)

    def repeat(self, data: bytes, now_ns: int) -> int:
        """Pass the requests at the start of the data that equal the one before; returns where they end."""
        if self.repeated is None or self.foretelling.decision is not None:
            return 0
        return self.repeated.again(data, 0, len(data), now_ns)

    def forget_repeated(self) -> None:
        """The client calls itself by another name: read its next request."""
        self.repeated = None

    @property
    def places_bytes(self) -> int:
        """About how much memory its producers take."""
        return TOPIC_BYTES * len(self._attached)

    def request(self, frame: bytes, head: RequestHead, now_ns: int) -> Pass | Later[Decided]:
        """Decide a Produce request topic by topic, once its large batches are measured."""
        is_short = head.end - head.start <= SHORT_BYTES and self.reading.measuring.slice.left > 0
        if is_short and not self._shared.policed.inspects and not self._shared.client_gaps.by_client:
            request = scan_plain(frame, head) or at_once(scan_slices(frame, head))
            topics = request.topics
            is_few = len(topics) <= TOPICS_PER_SLICE
            if is_few and (not self._may_be_read(topics) or self.reading.read_at_once(topics)):
                return self._decide_at_once(request, now_ns)
            return lambda turn: self._decide_all(turn, request)
        return lambda turn: self._slices(turn, frame, head)

    def _may_be_read(self, topics: Sequence[ProduceTopic]) -> bool:
        """Whether a policy reads messages of these topics, as far as their gates are compiled yet."""
        gates = self._shared.gates
        live = gates.exempt if self._connection.exempt else gates.live
        return any((gate := live.get(topic.name)) is None or gate.reads for topic in topics)

    def _decide_at_once(self, request: ProduceRequest, now_ns: int) -> Pass | Later[Decided]:
        """Decide a short request for a few topics, unchanged."""
        repeated, self.repeated = self.repeated, None
        topics = request.topics
        # Decided on the fast path already: a gate that is asked again charges or counts it twice.
        known = repeated.decision if repeated is not None and len(topics) == 1 else None
        if len(topics) > 1:
            check_names(topics)
        try:
            decisions = [known or self.decide(topic, request.acks, now_ns) for topic in topics]
        except BaseException:
            for topic in topics:  # those before the one that failed may be held
                self.abandon(topic, now_ns)
            raise
        if not any(decisions):
            return self._pass(request, now_ns, is_single=len(topics) == 1)
        return partial(self._exchange(request).work, decisions)

    def _exchange(self, request: ProduceRequest) -> Exchange:
        """What deals with a request of which not everything passes."""
        is_split = len(request.topics) > 1
        self._connection.output.count(
            KafkaEvent.PRODUCE_SPLIT if is_split else KafkaEvent.PRODUCE_HELD_OR_REFUSED
        )
        hold = Hold(self._shared.limits.max_hold_ns)
        return Exchange(self._shared, self._connection, self, request, hold)

    def _slices(self, turn: Turn, frame: bytes, head: RequestHead) -> Work[Decided]:
        yield from self.reading.measuring.slice.end()
        request = yield from scan_slices(frame, head)
        return (yield from self._decide_all(turn, request))

    def _decide_all(self, turn: Turn, request: ProduceRequest) -> Work[Decided]:
        try:
            yield from self.reading.inspect(request, turn)
            return (yield from self._decide_read(turn, request))
        except (NotNowError, NoRoomError):
            return refuse_for_now(self._shared, self._connection, request)
        finally:
            self.foretelling.forget()
            self.reading.measuring.free()

    def _decide_read(self, turn: Turn, request: ProduceRequest) -> Work[Decided]:
        repeated, self.repeated = self.repeated, None
        original = request.frame
        sequences = self._sequences
        if sequences is not None:
            known_of = [(topic.inspected, topic.contents) for topic in request.topics]
            request = sequences.mend(request)
            request.topics[:] = [
                topic._replace(inspected=inspected, contents=contents)
                for topic, (inspected, contents) in zip(request.topics, known_of, strict=True)
            ]
            if not sequences.gaps:
                self._shared.client_gaps.by_client.pop(self._connection.identity, None)
        topics = request.topics
        known = self.foretelling.decision or (repeated.decision if repeated is not None else None)
        try:
            decisions = yield from self._decisions(request, known, turn)
        except BaseException:  # the client has disconnected, say
            for topic in topics:
                self.abandon(topic, turn.now_ns)
            raise
        if request.frame is original and not any(decisions):
            return self._pass(request, turn.now_ns, is_single=len(topics) == 1)
        return (yield from self._exchange(request).work(decisions, turn))

    def _decisions(
        self, request: ProduceRequest, known: Decision | None, turn: Turn
    ) -> Work[list[Decision | None]]:
        """Decide all topics of a request.

        :param known: the decision on the only topic, if it was decided already.
        """
        topics = request.topics
        if len(topics) == 1 and known is not None:
            return [known]
        check_names(topics)
        decisions: list[Decision | None] = []
        for index, topic in enumerate(topics):
            if index % TOPICS_PER_SLICE == TOPICS_PER_SLICE - 1:
                yield TURN
            topics[index] = topic = yield from self.reading.read(topic, turn)
            decisions.append(self.decide(topic, request.acks, turn.now_ns))
        return decisions

    def _look_out(self, request: ProduceRequest, glance: Glance | None) -> None:
        """Take the fast path for requests like this one from now on, if it is the second of its kind."""
        topic = request.topics[0]
        attached = self._attached.get((topic.name, topic.producer_id))
        if attached is None or attached.delayed or attached.inspects or not is_repeatable(request):
            return
        if attached is self._last:
            self.repeated = Repeated(self._shared, self._connection, attached, request, self.reading, glance)
        self._last = attached

    @property
    def _sequences(self) -> Sequences | None:
        """Gaps in this client's numbers, if it has any."""
        known = self._shared.client_gaps.by_client
        return known.get(self._connection.identity) if known else None

    def _pass(self, request: ProduceRequest, now_ns: int, *, is_single: bool) -> Pass:
        """Pass a request unchanged.

        :param is_single: whether it is for one topic, so that those like it may take the fast path.
        """
        if is_single:
            has_glance = request.head.version >= FIRST_WITH_ENDPOINTS
            self._look_out(request, self._glance(request) if has_glance else None)
        return Pass(None if request.acks == 0 else self._owe(request, now_ns))

    def _owe(self, request: ProduceRequest, now_ns: int) -> Owed:
        """What the broker owes for a request that passes."""
        version, correlation_id = request.head.version, request.head.correlation_id
        appends = awaited_appends(self._shared, request.topics, self.unheard, now_ns)
        if appends is not None:
            return Expected(correlation_id, self._learning(appends, version))
        if version < FIRST_WITH_ENDPOINTS:
            return correlation_id
        return correlation_id, self._glance(request)

    def _learning(self, appends: Appends, version: int) -> Handle:
        def learn(frame: bytes, now_ns: int) -> Buffer:
            appends.learn(frame, version, now_ns)
            if has_node_endpoints(frame, version):
                return with_length([self._shared.learned.readdress_produce(frame, version)])
            return frame

        return learn

    def _glance(self, request: ProduceRequest) -> Glance:
        """Responses to requests like this one pass unless there are broker addresses in them."""
        topics = request.topics
        single = len(topics) == 1 and len(topics[0].partitions) == 1
        key = request.head.version, plain_response_length(topics[0].name) if single else -1
        glance = self._glances.get(key)
        if glance is None:
            glance = self._glances[key] = self._new_glance(*key)
        return glance

    def _new_glance(self, version: int, plain_length: int) -> Glance:
        def readdress(frame: bytes, now_ns: int) -> Buffer:
            return with_length([self._shared.learned.readdress_produce(frame, version)])

        return Glance(plain_length, lambda frame: not has_node_endpoints(frame, version), readdress)

    def decide(self, topic: ProduceTopic, acks: int, now_ns: int) -> Decision | None:
        """Ask the topic's gate; None if this topic of the request may proceed.

        :param topic: the topic's part of the request.
        :param acks: the request's acks; with 0 the client waits for no response.
        :param now_ns: monotonic time.
        """
        sequences = self._sequences
        before = sequences.decided(topic) if sequences is not None else None
        if before is not None:
            return before
        name, producer_id = topic.name, topic.producer_id
        gates, exempt = self._shared.gates, self._connection.exempt
        live = gates.exempt if exempt else gates.live
        gate = live.get(name) or self._shared.gate(name, exempt, now_ns)
        attached = self._attached.get((name, producer_id))
        if attached is None or topic.more_producers:
            refused = self._attach(gate, topic, now_ns)
            if refused is not None:
                return refused
            attached = self._attached[name, producer_id]
        if attached.gate is not gate:
            attached.use(gate)
        attached.last_ns = now_ns
        operation = attached.operation
        operation.messages = topic.messages
        operation.bytes = topic.bytes
        operation.largest = topic.largest_batch
        operation.reliable = acks != 0
        if attached.looks or topic.largest_batch > attached.size_limit:
            self._examine(topic, attached)
        if attached.delayed:
            operation.ahead_ms = topic.max_timestamp - self._shared.wall_ms(now_ns)
        decision = gate.publish(operation, now_ns)
        if decision is not None:
            decision = allowed(decision)
        if operation.contents:
            operation.contents = ()
        if self._unsent:
            self._settle(topic, decision, now_ns)
        return decision

    def _examine(self, topic: ProduceTopic, attached: Attached) -> None:
        """Set what was found in a topic's batches: the largest message, and all where policies read them."""
        operation = attached.operation
        operation.unreadable, operation.contents = "", ()
        if topic.inspected is not None:
            operation.largest, operation.unreadable = topic.inspected
        elif topic.largest_batch > attached.size_limit:  # `max_hold` is short, or was lowered meanwhile
            operation.largest = self.reading.measured_at_once(topic, attached.size_limit)
        if attached.gate.reads:
            operation.contents, problem = topic.contents or NOT_READ
            operation.unreadable = operation.unreadable or problem

    def _settle(self, topic: ProduceTopic, decision: Decision | None, now_ns: int) -> None:
        """Note that producers were admitted; after a refusal detach those of which nothing ever was."""
        if decision is not None and decision.action is Action.DELAY:
            return
        is_refused = decision is not None and decision.action is not Action.REWRITE
        for producer_id in (topic.producer_id, *topic.more_producers):
            key = (topic.name, producer_id)
            if key in self._unsent:
                self._unsent.discard(key)
                if is_refused:
                    self._detach(key, now_ns)
                else:
                    self.unheard[key] = partial(self._release, key, self._attached[key])

    def _release(self, key: tuple[str, int], attached: Attached, now_ns: int) -> None:
        """The broker does not let a producer publish: it counts no more."""
        if self._attached.get(key) is attached:
            self._detach(key, now_ns)

    def abandon(self, topic: ProduceTopic, now_ns: int) -> None:
        """A held topic of a request will not be forwarded."""
        for producer_id in (topic.producer_id, *topic.more_producers):
            place = self._attaching.pop((topic.name, producer_id), None)
            if place is not None:
                place.withdraw(self._shared.gate(topic.name, self._connection.exempt, now_ns), now_ns)
        attached = self._attached.get((topic.name, topic.producer_id))
        if attached is not None:
            attached.gate.abandon(attached.operation, now_ns)

    def _attach(self, gate: Gate, topic: ProduceTopic, now_ns: int) -> Decision | None:
        """Attach all producers of a topic's part of a request, or none of the new ones.

        :return: why one of them may not attach; None if all are attached.
        """
        if len(topic.more_producers) > _MAX_PRODUCERS:
            raise ProtocolError(f"more than {_MAX_PRODUCERS} producers for one topic in a Produce request")
        for producer_id in (topic.producer_id, *topic.more_producers):
            key = (topic.name, producer_id)
            known = self._attached.pop(key, None)
            if known is not None:
                self._attached[key] = known  # the last one to go if there are too many
                continue
            refused = self._attach_one(gate, key, now_ns)
            if refused is not None:
                # Those of a held request stay: otherwise it could never attach more than the attach rate
                # admits at once.
                self._settle(topic, refused, now_ns)
                return refused
        return None

    def _attach_one(self, gate: Gate, key: tuple[str, int], now_ns: int) -> Decision | None:
        """Attach a producer, identified by its producer id if it has one, else by its client."""
        topic, producer_id = key
        plain = self._shared.plain_producers
        place = self._attaching.pop(key, None) or Admission(self._operation(key))
        operation = place.attach
        if producer_id < 0:
            plain.make_room(self._connection, gate, topic, now_ns)
            operation.producer = plain.next_name(self._connection, topic)
        refused = place.decide(gate, now_ns)
        if refused is not None:
            if refused.action is Action.DELAY:
                self._attaching[key] = place
            return refused
        operation.kind = OperationKind.PUBLISH
        if len(self._attached) >= _MAX_ATTACHED:
            self._detach(next(iter(self._attached)), now_ns)
        equal = None
        if producer_id < 0:
            equal = PlainProducer(self._connection, operation, gate.state, partial(self._detach, key))
            plain.admitted(equal, self._connection, topic)
        self._attached[key] = Attached(operation, gate, equal, now_ns)
        self._unsent.add(key)
        return None

    def _operation(self, key: tuple[str, int]) -> Operation:
        connection = self._connection
        topic, producer_id = key
        return Operation(
            OperationKind.ATTACH_PRODUCER,
            topic,
            principal=connection.principal,
            client=connection.client,
            producer=f"id {producer_id}",
            roams=producer_id >= 0,
        )

    @property
    def produced_ns(self) -> int:
        """When this client last published anything."""
        return max((attached.last_ns for attached in self._attached.values()), default=0)

    def release_idle(self, now_ns: int) -> Slices[None]:
        """Detach producers that have not published for the configured time; in slices."""
        oldest = now_ns - self._shared.limits.producer_idle_ns
        work = 0
        for key in tuple(self._attached):
            attached = self._attached.get(key)
            work += 1
            if attached is not None and attached.last_ns < oldest:
                self._detach(key, now_ns)
                work += ENTRIES_PER_SLICE // _DETACHED_PER_SLICE
            if work >= ENTRIES_PER_SLICE:
                work = 0
                yield

    def parting(self, now_ns: int) -> Slices[None]:
        """The connection is closed: detach all its producers."""
        for count, key in enumerate(tuple(self._attached), 1):
            self._detach(key, now_ns)
            if count % _DETACHED_PER_SLICE == 0:
                yield

    def _detach(self, key: tuple[str, int], now_ns: int) -> None:
        attached = self._attached.pop(key)
        self._unsent.discard(key)
        self.unheard.pop(key, None)
        self.repeated = self._last = None
        attached.gate.abandon(attached.operation, now_ns)
        attached.gate.detach(attached.operation)
        if attached.plain is not None:
            self._shared.plain_producers.left(attached.plain)
