"""A Produce request with some topics refused or held.

Topics that may proceed are forwarded at once in a smaller request; held ones follow when their time comes;
the client gets one response with everything in it. While a topic is held nothing else of that connection is
read, so the order within every partition is the client's.
"""

from collections.abc import Iterable
from functools import partial
from typing import Protocol

from sluicegate.broker import Buffer
from sluicegate.decisions.ids import with_id
from sluicegate.engine.wait_queue import Hold
from sluicegate.model import Action, Decision
from sluicegate.sessions.pieces import NoRoomError
from sluicegate.sessions.work import Running, Turn, Until, Work
from sluicegate_kafka.codec import errors
from sluicegate_kafka.codec.produce_requests import ProduceRequest, ProduceTopic, subset_produce
from sluicegate_kafka.codec.produce_responses import merge_produce_responses, refusal_response
from sluicegate_kafka.events import KafkaEvent
from sluicegate_kafka.session.producing.appends import Appends, Unheard, awaited_appends
from sluicegate_kafka.session.requests.connection import Connection
from sluicegate_kafka.session.requests.pending import Expected
from sluicegate_kafka.session.requests.working import Decided
from sluicegate_kafka.session.shared.refusals import produce_code
from sluicegate_kafka.session.shared.sequences import OUT_OF_ORDER
from sluicegate_kafka.session.shared.shared import Shared

_MAX_THROTTLE_MS = 1_000


class Decider(Protocol):
    """Decides topics by their gates; implemented by `producing.Producing`."""

    unheard: Unheard
    """Its producers that the broker has not answered yet."""

    def decide(self, topic: ProduceTopic, acks: int, now_ns: int) -> Decision | None:
        """Ask a topic's gate; None if this topic of the request may proceed."""

    def abandon(self, topic: ProduceTopic, now_ns: int) -> None:
        """A held topic of a request will not be forwarded."""


class Exchange:
    """One Produce request, its parts, and the response that is being put together."""

    __slots__ = (
        "_arrived",
        "_connection",
        "_decider",
        "_held",
        "_hold",
        "_owed",
        "_refused",
        "_request",
        "_shared",
        "_throttle_ms",
    )

    def __init__(
        self, shared: Shared, connection: Connection, decider: Decider, request: ProduceRequest
    ) -> None:
        self._shared = shared
        self._connection = connection
        self._decider = decider
        self._request = request
        self._held: list[int] = []
        self._refused: list[tuple[str, list[int], int, str]] = []
        self._arrived: list[bytes] = []
        self._owed = 0
        self._throttle_ms = 0
        self._hold = Hold(shared.max_hold_ns)

    def begin(self, decisions: list[Decision | None], now_ns: int) -> Decided:
        """Act on the first decisions of a request that took no time yet; as `work`."""
        turn: Running[bool] = Running(now_ns)
        return turn.begin(self.work(decisions, turn))

    def work(self, decisions: list[Decision | None], turn: Turn) -> Work[bool]:
        """Forward and refuse topics until none is held.

        :param decisions: the first ones, one for each topic of the request.
        """
        event = KafkaEvent.PRODUCE_SPLIT if len(decisions) > 1 else KafkaEvent.PRODUCE_HELD_OR_REFUSED
        self._shared.count(event)
        topics, acks = self._request.topics, self._request.acks
        try:
            wait_ns = self._act(dict(enumerate(decisions)), turn.now_ns)
            while self._held:
                yield Until(turn.now_ns + wait_ns)
                held, self._held = self._held, []
                again = {place: self._decider.decide(topics[place], acks, turn.now_ns) for place in held}
                wait_ns = self._act(again, turn.now_ns)
        except NoRoomError:
            self._refuse_held(turn.now_ns)
        finally:  # the client has disconnected: held topics are discarded, never forwarded
            for place in self._held:
                self._decider.abandon(topics[place], turn.now_ns)
            self._held.clear()
        self._settled()
        return False

    def _act(self, decisions: dict[int, Decision | None], now_ns: int) -> int:
        """Act on decisions by place; returns how long to wait for those that are held, in ns."""
        passed: list[int] = []
        late: list[int] = []
        shortest_ns = 0
        for place, decision in decisions.items():
            topic = self._request.topics[place]
            if decision is None:
                passed.append(place)
            elif wait_ns := self._hold.wait_ns(decision, now_ns):
                self._held.append(place)
                delay_ms = min(_MAX_THROTTLE_MS, decision.delay_ns // 1_000_000)
                self._throttle_ms = max(self._throttle_ms, delay_ms)
                shortest_ns = min(shortest_ns or wait_ns, wait_ns)
            elif decision.action is Action.DELAY:
                late.append(place)
            else:
                self._reject(topic, decision)
        if late:
            self._give_up(late, f"held for {self._shared.max_hold_ns // 1_000_000} ms by limits", now_ns)
            self._shared.count(KafkaEvent.PRODUCE_HOLD_TIMED_OUT)
        if passed:
            self._forward(passed, now_ns)
        return shortest_ns

    def _reject(self, topic: ProduceTopic, decision: Decision) -> None:
        """Refuse a topic, and what follows on its partitions until the client closes the gap."""
        partitions = topic.partitions
        code, text = produce_code(decision, topic.messages), with_id(decision.text, decision.id)
        if self._request.acks != 0 and topic.producer_id >= 0:
            if decision is OUT_OF_ORDER:
                # A topic is refused as a whole: its partitions without a gap get the code of a later try.
                late = self._shared.sequences_of(self._connection).out_of_order(topic)
                self._refused.append((topic.name, late, errors.OUT_OF_ORDER_SEQUENCE_NUMBER, text))
                partitions = [each for each in partitions if each not in late]
            if code == errors.NOT_ENOUGH_REPLICAS:
                self._shared.postponed(self._connection, topic)
            else:
                self._shared.sequences_of(self._connection).refused(topic, decision)
        if partitions:
            self._refuse(topic._replace(partitions=partitions), code, text)

    def _refuse(self, topic: ProduceTopic, code: int, text: str) -> None:
        if self._request.acks == 0:
            self._shared.count(KafkaEvent.PRODUCE_DROPPED_ACKS_0)
        self._refused.append((topic.name, topic.partitions, code, text))

    def _give_up(self, places: Iterable[int], why: str, now_ns: int) -> None:
        """Refuse topics that were held too long; the client retries by its own rules."""
        for place in places:
            topic = self._request.topics[place]
            self._decider.abandon(topic, now_ns)
            if self._request.acks != 0:
                self._shared.postponed(self._connection, topic)
            self._refuse(topic, errors.NOT_ENOUGH_REPLICAS, f"{why} of topic {topic.name}; try again")

    def _forward(self, places: list[int], now_ns: int) -> None:
        gaps = self._shared.sequences
        if gaps and (sequences := gaps.get(self._connection.identity)) is not None:
            for place in places:
                sequences.passed(self._request.topics[place])
        request, head = self._request, self._request.head
        if len(places) == len(request.topics):
            self._connection.parts.append(memoryview(request.frame)[head.start - 4 : head.end])
        else:
            self._connection.parts.append(subset_produce(request, places))
        if request.acks != 0:
            self._owed += 1
            topics = [request.topics[place] for place in places]
            appends = awaited_appends(self._shared, topics, self._decider.unheard, now_ns)
            handle = partial(self.part, appends)
            self._connection.outstanding.expect(Expected(head.correlation_id, handle))

    def _settled(self) -> None:
        """Answer now, or wait for the broker, as nothing is held any more."""
        # The response may take long, and needs none of the bytes.
        self._request = self._request._replace(frame=b"", topics=[])
        if self._request.acks != 0 and self._owed == 0:
            self._connection.outstanding.answer(self._response())

    def part(self, appends: Appends | None, frame: bytes, now_ns: int) -> Buffer | None:
        """The broker answered one part; the response is complete when nothing is held or owed."""
        if appends is not None:
            appends.learn(frame, self._request.head.version, now_ns)
        self._owed -= 1
        self._arrived.append(frame)
        if self._owed or self._held:
            return None
        return self._response()

    def _response(self) -> Buffer:
        version, correlation_id = self._request.head.version, self._request.head.correlation_id
        if not self._arrived:
            return refusal_response(version, correlation_id, self._refused, self._throttle_ms)
        arrived = [self._shared.readdress_produce(frame, version) for frame in self._arrived]
        return merge_produce_responses(version, correlation_id, arrived, self._refused, self._throttle_ms)

    def _refuse_held(self, now_ns: int) -> None:
        """Refuse the held topics for lack of memory; the client retries."""
        self._give_up(self._held, "too many bytes are held already to wait for limits", now_ns)
        self._held.clear()
        self._shared.count(KafkaEvent.PRODUCE_NOT_HELD_FOR_BUDGET)
