"""A Produce request with some topics refused or held.

Topics that may proceed are forwarded at once in a smaller request; held ones follow when their time comes;
the client gets one response with everything in it. While a topic is held nothing else of that connection is
read, so the order within every partition is the client's.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeAlias

from sluicegate.broker import Buffer
from sluicegate.decisions.ids import with_id
from sluicegate.engine import texts
from sluicegate.engine.wait_queue import Hold
from sluicegate.model import Action, Breakage, Decision, Outcome, Reason
from sluicegate.sessions.pieces import NoRoomError
from sluicegate.sessions.work import Turn, Until, Work
from sluicegate_kafka.codec import errors
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.produce_parts import subset_produce
from sluicegate_kafka.codec.produce_requests import ProduceRequest, ProduceTopic, measure_records
from sluicegate_kafka.codec.produce_responses import (
    appended,
    merge_produce_responses,
    refusal_response,
    unauthorized,
    unreadable_response,
)
from sluicegate_kafka.events import KafkaEvent
from sluicegate_kafka.session.producing.contents import Reading
from sluicegate_kafka.session.producing.inspecting import NotNowError
from sluicegate_kafka.session.requests.connection import Connection
from sluicegate_kafka.session.requests.outcomes import Answer, Expected
from sluicegate_kafka.session.shared.refusals import produce_code
from sluicegate_kafka.session.shared.sequences import OUT_OF_ORDER
from sluicegate_kafka.session.shared.shared import Shared

_MAX_THROTTLE_MS = 1_000
_NOT_CHANGED = Decision(
    Action.REJECT,
    (Reason("", Outcome.PRECONDITION, "the headers cannot be changed at the moment; try again"),),
)
Unheard: TypeAlias = dict[tuple[str, int], Callable[[int], None]]
"""Producers that the broker has not responded to yet, by topic and id -> releases one at a monotonic time."""


class Decider(Protocol):
    """Decides topics by their gates; implemented by `producing.Producing`."""

    unheard: Unheard
    """Its producers that the broker has not responded to yet."""
    reading: Reading
    """Of its connection."""

    def decide(self, topic: ProduceTopic, acks: int, now_ns: int) -> Decision | None:
        """Ask a topic's gate; None if this topic of the request may proceed."""

    def abandon(self, topic: ProduceTopic, now_ns: int) -> None:
        """A held topic of a request will not be forwarded."""


@dataclass(slots=True)
class Exchange:
    """One Produce request, its parts, and the response that is being put together."""

    _shared: Shared
    _connection: Connection
    _decider: Decider
    _request: ProduceRequest
    _hold: Hold
    _held: list[int] = field(default_factory=list)
    """Topics that wait, by index."""
    _refused: list[tuple[str, list[int], int, str]] = field(default_factory=list)
    _arrived: list[bytes] = field(default_factory=list)
    _owed: int = 0
    """How many parts the broker has not responded to."""
    _throttle_ms: int = 0
    _changed: dict[int, list[bytes]] = field(default_factory=dict)
    """Batches with other headers, by index of the topic."""
    _is_unreadable: bool = False
    """Whether a policy breaks the response."""

    def work(self, decisions: list[Decision | None], turn: Turn) -> Work[Answer | None]:
        """Forward and refuse topics until none is held.

        :param decisions: the first ones, one for each topic of the request.
        :return: the answer; None if it comes later, or there is none.
        """
        topics, acks = self._request.topics, self._request.acks
        try:
            wait_ns = yield from self._act(dict(enumerate(decisions)), turn)
            while self._held:
                yield Until(turn.now_ns + wait_ns)
                held, self._held = self._held, []
                again = {index: self._decider.decide(topics[index], acks, turn.now_ns) for index in held}
                wait_ns = yield from self._act(again, turn)
        except NoRoomError:
            self._refuse_held(turn.now_ns)
        finally:  # the client has disconnected: held topics are discarded, never forwarded
            for index in self._held:
                self._decider.abandon(topics[index], turn.now_ns)
        # The response may take long, and needs none of the bytes.
        self._request = self._request._replace(frame=b"", topics=[])
        self._changed.clear()
        is_broken = self._connection.output.closing is not None
        return Answer(self._response()) if acks != 0 and self._owed == 0 and not is_broken else None

    def _act(self, decisions: dict[int, Decision | None], turn: Turn) -> Work[int]:
        """Act on decisions by topic index; returns how long to wait for those that are held, in ns."""
        for index, decision in decisions.items():
            if decision is not None and decision.action is Action.REWRITE:
                decisions[index] = yield from self._change(index, decision, turn)
        now_ns = turn.now_ns
        passed: list[int] = []
        late: list[int] = []
        shortest_ns = 0
        for index, decision in decisions.items():
            topic = self._request.topics[index]
            if decision is None:
                passed.append(index)
            elif wait_ns := self._hold.wait_ns(decision, now_ns):
                self._held.append(index)
                delay_ms = min(_MAX_THROTTLE_MS, decision.delay_ns // 1_000_000)
                self._throttle_ms = max(self._throttle_ms, delay_ms)
                shortest_ns = min(shortest_ns or wait_ns, wait_ns)
            elif decision.action is Action.DELAY:
                late.append(index)
            elif decision.breaks is not None:
                self._break(topic, decision)
            else:
                self._reject(topic, decision)
        if late:
            self._give_up(
                late, f"held for {self._shared.limits.max_hold_ns // 1_000_000} ms by limits", now_ns
            )
            self._shared.count(KafkaEvent.PRODUCE_HOLD_TIMED_OUT)
        if passed:
            self._forward(passed, now_ns)
        return shortest_ns

    def _change(self, index: int, decision: Decision, turn: Turn) -> Work[Decision | None]:
        """Change the headers of a topic; None if it may proceed, else the decision on it instead."""
        topic = self._request.topics[index]
        try:
            self._changed[index] = yield from self._decider.reading.changed(topic, decision.headers, turn)
        except ProtocolError as error:
            text = texts.not_read(decision.reasons[0].policy, topic.name, error.reason)
            return replace(decision, action=Action.REJECT, reasons=(replace(decision.reasons[0], text=text),))
        except (NotNowError, NoRoomError):
            return _NOT_CHANGED
        return None

    def _reject(self, topic: ProduceTopic, decision: Decision) -> None:
        """Refuse a topic, and what follows on its partitions until the client closes the gap."""
        partitions = topic.partitions
        code, text = produce_code(decision, topic.messages), with_id(decision.text, decision.id)
        if self._request.acks != 0 and topic.producer_id >= 0:
            if decision is OUT_OF_ORDER:
                # A topic is refused as a whole: its partitions without a gap get the code of a later try.
                late = self._shared.client_gaps.of(self._connection).out_of_order(topic)
                self._refused.append((topic.name, late, errors.OUT_OF_ORDER_SEQUENCE_NUMBER, text))
                partitions = [each for each in partitions if each not in late]
            if code == errors.NOT_ENOUGH_REPLICAS:
                self._shared.client_gaps.postponed(self._connection, topic)
            else:
                self._shared.client_gaps.of(self._connection).refused(topic, decision)
        if partitions:
            self._refuse(topic._replace(partitions=partitions), code, text)

    def _break(self, topic: ProduceTopic, decision: Decision) -> None:
        """Break the connection or the response, as a test of the client, which may send the topic again."""
        if decision.breaks is Breakage.CONNECTION:
            self._connection.break_off(decision)
        elif self._request.acks != 0:
            self._is_unreadable = True
            self._shared.client_gaps.postponed(self._connection, topic)

    def _refuse(self, topic: ProduceTopic, code: int, text: str) -> None:
        if self._request.acks == 0:
            self._shared.count(KafkaEvent.PRODUCE_DROPPED_ACKS_0)
        self._refused.append((topic.name, topic.partitions, code, text))

    def _give_up(self, indexes: Iterable[int], why: str, now_ns: int) -> None:
        """Refuse topics that were held too long; the client retries by its own rules."""
        for index in indexes:
            topic = self._request.topics[index]
            self._decider.abandon(topic, now_ns)
            if self._request.acks != 0:
                self._shared.client_gaps.postponed(self._connection, topic)
            self._refuse(topic, errors.NOT_ENOUGH_REPLICAS, f"{why} of topic {topic.name}; try again")

    def _forward(self, indexes: list[int], now_ns: int) -> None:
        gaps = self._shared.client_gaps.by_client
        if gaps and (sequences := gaps.get(self._connection.identity)) is not None:
            for index in indexes:
                sequences.passed(self._request.topics[index])
        request, head = self._request, self._request.head
        is_whole = len(indexes) == len(request.topics)
        whole = memoryview(request.frame)[head.start - 4 : head.end]
        owed = None
        if request.acks != 0:
            self._owed += 1
            topics = [request.topics[index] for index in indexes]
            appends = awaited_appends(self._shared, topics, self._decider.unheard, now_ns)
            owed = Expected(head.correlation_id, partial(self.part, appends))
        is_whole = is_whole and self._changed.keys().isdisjoint(indexes)
        self._connection.send(whole if is_whole else subset_produce(request, indexes, self._changed), owed)

    def part(self, appends: "Appends | None", frame: bytes, now_ns: int) -> Buffer | None:
        """The broker responded to one part; the response is complete when nothing is held or owed."""
        if appends is not None:
            appends.learn(frame, self._request.head.version, now_ns)
        self._owed -= 1
        self._arrived.append(frame)
        if self._owed or self._held:
            return None
        return self._response()

    def _response(self) -> Buffer:
        version, correlation_id = self._request.head.version, self._request.head.correlation_id
        if self._is_unreadable:
            return unreadable_response(version, correlation_id)
        if not self._arrived:
            return refusal_response(version, correlation_id, self._refused, self._throttle_ms)
        arrived = [self._shared.learned.readdress_produce(frame, version) for frame in self._arrived]
        return merge_produce_responses(version, correlation_id, arrived, self._refused, self._throttle_ms)

    def _refuse_held(self, now_ns: int) -> None:
        """Refuse the held topics for lack of memory; the client retries."""
        self._give_up(self._held, "too many bytes are held already to wait for limits", now_ns)
        self._held.clear()
        self._shared.count(KafkaEvent.PRODUCE_NOT_HELD_FOR_BUDGET)


class Appends:
    """The batches of one forwarded Produce request whose arrival or first response matters.

    :param shared: where arrivals are kept.
    :param asked_ms: when the request is forwarded, in ms of the wall clock.
    """

    __slots__ = ("_asked_ms", "_batches", "_first", "_shared")

    def __init__(self, shared: Shared, asked_ms: int) -> None:
        self._shared = shared
        self._asked_ms = asked_ms
        self._batches: dict[tuple[str, int], tuple[int, int, bool]] = {}
        """Topic and partition -> records, the topic's delay in ms, and whether they may be stored already."""

        self._first: list[tuple[str, Callable[[int], None]]] = []
        """Topics, and what releases a producer there that the broker responds to for the first time."""

    def first(self, topic: str, release: Callable[[int], None]) -> None:
        """Record that the response is the first one to a producer.

        :param release: called if the broker does not let it publish.
        """
        self._first.append((topic, release))

    def add(self, topic: ProduceTopic, delay_ms: int, behind_ms: int) -> None:
        """Record a request's batches of a topic.

        :param delay_ms: the topic's fixed delay.
        :param behind_ms: how long before its arrival a record may be stamped.
        """
        is_idempotent = max(topic.producer_id, *topic.more_producers, -1) >= 0
        for partition, span in zip(topic.partitions, topic.records, strict=True):
            records, _, stamped_ms, _ = measure_records(topic.frame, *span)
            self._batches[topic.name, partition] = records, delay_ms, is_idempotent
            if stamped_ms < self._asked_ms - behind_ms:
                self._shared.count(KafkaEvent.PRODUCE_BACK_DATED)

    def learn(self, frame: bytes, version: int, now_ns: int) -> None:
        """Read the offsets that the broker assigned, and whom it refuses.

        :param frame: the response without its length.
        :param version: of the request.
        :param now_ns: monotonic time.
        """
        if self._first:
            refused = unauthorized(frame, version)
            for name, release in self._first:
                if name in refused:
                    release(now_ns)
        if not self._batches:
            return
        now_ms = self._shared.wall_ms(now_ns)
        only = next(iter(self._batches)) if len(self._batches) == 1 else None
        arrivals = self._shared.learned.arrivals
        for topic, partition, offset in appended(frame, version, only):
            records, delay_ms, is_idempotent = self._batches.get((topic, partition), (0, 0, False))
            at, end = (topic, partition), offset + records
            # The response to a repeated batch has the offset of the first time: it tells nothing new, and not
            # that the topic was recreated.
            if records and not (is_idempotent and arrivals.covers(at, end)):
                arrivals.note(at, offset, end, self._asked_ms, now_ms, delay_ms)


def awaited_appends(
    shared: Shared, topics: Iterable[ProduceTopic], unheard: Unheard, now_ns: int
) -> Appends | None:
    """What the response shows; None if there is nothing to learn.

    :param topics: what is forwarded.
    :param unheard: loses the producers of these topics.
    :param now_ns: monotonic time.
    """
    appends: Appends | None = None
    if not (unheard or shared.policed.reads_fetches):
        return appends
    for topic in topics:
        rule = shared.gate(topic.name, False, now_ns).delay if shared.policed.reads_fetches else None
        if rule is None and not unheard:
            continue
        keys = [(topic.name, each) for each in (topic.producer_id, *topic.more_producers)]
        released = [unheard.pop(key) for key in keys if key in unheard]
        if rule is None and not released:
            continue
        appends = appends or Appends(shared, shared.wall_ms(now_ns))
        if rule is not None:
            appends.add(topic, rule.fixed_ms, rule.max_behind_ms)
        for release in released:
            appends.first(topic.name, release)
    return appends
