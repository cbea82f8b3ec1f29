"""Plays a scenario at a door."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sluicegate.engine.state import TopicState
from sluicegate.model import Action, Operation, OperationKind
from sluicegate.testing.conformance.door import Consumer, Door, Producer, Received, RefusedByDoor, Sample
from sluicegate.testing.conformance.scenarios import Scenario
from sluicegate.testing.conformance.steps import (
    Acknowledge,
    CreateTopic,
    Leave,
    Publish,
    Receive,
    ReceiveNothing,
    Step,
    Subscribe,
)
from sluicegate.testing.sink import Recorded

PATIENCE_S = 600.0
"""How long a step may take; it ends only what never comes."""
NOTHING_S = 0.5
"""How long a client waits to see that nothing comes."""
_CLOCKS_S = 0.005
"""By how much the clocks of producers and gateways differ from ours, which give milliseconds."""
_STOPPING = (Action.REJECT, Action.DELAY)
_ATTACHING = (OperationKind.ATTACH_PRODUCER, OperationKind.ATTACH_CONSUMER)


@dataclass(frozen=True, slots=True)
class Left:
    """A client has left its place."""

    op: Operation
    """By which it had attached."""
    now_ns: int


@dataclass(slots=True)
class Played:
    """What came of a scenario."""

    topic: str
    events: list[Recorded | Left] = field(default_factory=list)
    """All operations on its topic with their decisions, and who left, in order."""
    counts: Mapping[str, int] = field(default_factory=dict)
    error: BaseException | None = None
    """What went otherwise than the steps say."""

    @property
    def decisions(self) -> list[tuple[str, str]]:
        """Action and policy of each decision that is neither a plain allow nor a delay, in order."""
        return [
            (f"would_{each.action}" if each.observed else str(each.action), each.reasons[0].policy)
            for each in (event.decision for event in self.events if isinstance(event, Recorded))
            if each is not None and (each.observed or each.action is not Action.DELAY)
        ]


def counts_of(state: TopicState) -> dict[str, int]:
    """What is counted of a topic."""
    return {
        "producers": len(state.producers),
        "consumers": state.consumer_count,
        "published": state.allowed_messages,
        "delivered": state.dispatched_messages,
        "rejected": state.rejected,
        "observed": state.observed,
    }


async def play(scenario: Scenario, door: Door, topic: str) -> Played:
    """Do the steps of a scenario and compare what comes of them.

    :param topic: full name of a topic of its own.
    """
    playing = _Playing(door, topic)
    try:
        for number, step in enumerate(scenario.steps):
            async with asyncio.timeout(PATIENCE_S):
                await playing.do(step, f"step {number + 1}, {step}")
    except Exception as error:  # noqa: BLE001 - told by the scenario's test; the others go on
        playing.played.error = error
    playing.end()
    await playing.close()
    return playing.played


class _Playing:
    def __init__(self, door: Door, topic: str) -> None:
        self._door, self._topic = door, topic
        self._principals: dict[str, str] = {}
        self._producers: dict[str, Producer] = {}
        self._consumers: dict[str, Consumer] = {}
        self._published_s: dict[bytes, float] = {}
        """When each message was published, by the first bytes of its value, which are its number."""
        self._received: dict[str, list[Received]] = {}
        self._unacknowledged: dict[str, list[Received]] = {}
        self._attached: dict[str, list[Operation]] = {}
        self._looked = 0
        """Records of the door that were looked through."""
        self.played = Played(topic)

    async def do(self, step: Step, words: str) -> None:
        """Do one step.

        :param words: which one it is.
        """
        self._principals.setdefault(step.who, step.principal)
        began_s, first = _now_s(), len(self.played.events)
        refusal: RefusedByDoor | None = None
        try:
            await self._do(step)
        except RefusedByDoor as error:
            refusal = error
        took_s = _now_s() - began_s
        self._look()
        events = [each for each in self.played.events[first:] if isinstance(each, Recorded)]
        if not isinstance(step, Leave):
            self._attached.setdefault(step.who, []).extend(_attached(events))
        assert took_s >= step.at_least_s, f"{words} took {took_s:.3f} s"
        _compare_refusal(step, refusal, events, words, tells_reasons=self._door.tells_reasons)

    async def _do(self, step: Step) -> None:
        match step:
            case Publish():
                for _ in range(step.times):
                    await self._publish(step)
            case CreateTopic():
                principal = self._principals[step.who]
                await self._door.create_topic(self._topic, step.partitions, step.who, principal)
            case Subscribe():
                principal = self._principals[step.who]
                self._consumers[step.who] = await self._door.consumer(
                    self._topic, step.subscription, step.who, principal
                )
            case Leave():
                await self._leave(step.who)
            case _:
                await self._consume(step, self._consumers[step.who])

    async def _consume(self, step: Step, consumer: Consumer) -> None:
        match step:
            case Receive():
                for _ in range(step.count):
                    await self._receive(step)
            case ReceiveNothing():
                come = await consumer.receive(NOTHING_S)
                assert come is None, f"{step.who} received {come}"
            case Acknowledge():
                for _ in range(step.count):
                    await consumer.acknowledge(self._unacknowledged[step.who].pop(0))

    async def _publish(self, step: Publish) -> None:
        producer = self._producers.get(step.who)
        if producer is None:
            principal = self._principals[step.who]
            producer = await self._door.producer(self._topic, step.who, principal)
            self._producers[step.who] = producer
        number = b"%08d" % len(self._published_s)
        self._published_s[number] = _now_s()
        value = number.ljust(step.size, b".")
        await producer.publish(
            Sample(value, step.headers, step.key, step.schema, step.delay_ms, step.compressed)
        )

    async def _receive(self, step: Receive) -> None:
        message = await self._consumers[step.who].receive(PATIENCE_S)
        assert message is not None, f"{step.who} received no message"
        number = message.value[:8]
        age_s = _now_s() - self._published_s[number]
        before = self._received.setdefault(step.who, [])
        assert not before or before[-1].value[:8] < number, f"{step.who} received messages out of order"
        assert age_s >= step.older_s - _CLOCKS_S, f"{step.who} received a message after {age_s:.3f} s"
        if step.headers is not None:
            assert dict(message.headers) == dict(step.headers), f"{step.who} received {message}"
        before.append(message)
        self._unacknowledged.setdefault(step.who, []).append(message)

    async def _leave(self, who: str) -> None:
        state = self._door.state(self._topic)
        before = len(state.producers) + state.consumer_count
        self._look()
        events = self.played.events
        first = len(events)
        gone = self._producers.pop(who, None) or self._consumers.pop(who)
        await gone.close()
        while len(state.producers) + state.consumer_count >= before:  # noqa: ASYNC110 - at any door
            await asyncio.sleep(0.02)
        self._look()
        # It may attach once more: a Kafka consumer can fetch when it has left its group.
        again = [Left(op, events[-1].now_ns) for op in _attached(events[first:])]
        events[first:first] = [Left(op, events[first - 1].now_ns) for op in self._attached.pop(who, ())]
        events += again

    def _look(self) -> None:
        records = self._door.sink.records
        end = len(records)
        self.played.events.extend(
            record for record in records[self._looked : end] if record.op.topic == self._topic
        )
        self._looked = end

    def end(self) -> None:
        """Keep what is counted at the end, at the same moment as the last events."""
        try:
            state = self._door.state(self._topic)
        except KeyError:
            return
        while True:  # other threads may decide meanwhile
            self._look()
            self.played.counts = counts_of(state)
            if self._looked == len(self._door.sink.records):
                return

    async def close(self) -> None:
        """End all clients."""
        await asyncio.gather(*(each.close() for each in self._open()), return_exceptions=True)

    def _open(self) -> Iterator[Producer | Consumer]:
        yield from self._producers.values()
        yield from self._consumers.values()


def _attached(events: Iterable[Recorded | Left]) -> Iterator[Operation]:
    """The operations by which clients attached."""
    for each in events:
        if isinstance(each, Recorded) and each.op.kind in _ATTACHING and each.decision is None:
            yield each.op


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _compare_refusal(
    step: Step, refusal: RefusedByDoor | None, events: list[Recorded], words: str, *, tells_reasons: bool
) -> None:
    if not step.refused:
        assert refusal is None, f"{words} was refused: {refusal}"
        return
    assert refusal is not None, f"{words} was not refused"
    refused = [each.decision for each in events if each.decision is not None and not each.decision.observed]
    # One that is held for longer than calls may be held is refused by what held it.
    decision = next((each for each in reversed(refused) if each.action in _STOPPING), None)
    assert decision is not None, f"{words} was refused without a decision: {refusal}"
    assert decision.reasons[0].policy == step.refused, f"{words} was refused by {decision.reasons}"
    assert not tells_reasons or decision.id in refusal.text, (
        f"{words}: {refusal.text!r} does not say {decision.id}"
    )
