"""Who attaches is admitted as in front of any other broker: rewritten, held to one deadline, taken back."""

from collections.abc import Mapping, Sequence

from tests.kafka.session.messages import (
    batch,
    fetch,
    fetch_errors,
    fetched,
    outcome,
    produce,
)
from tests.kafka.session.wire import SECOND, Bench, Wire

from sluicegate.engine.check import Check, Stage
from sluicegate.engine.holds import HoldTimes
from sluicegate.engine.state import TopicState
from sluicegate.hooks import hookimpl
from sluicegate.model import (
    Action,
    Decision,
    EffectivePolicies,
    Operation,
    OperationKind,
    Outcome,
    Reason,
    TopicName,
)

CREATE, CONSUMER = OperationKind.CREATE_SUBSCRIPTION, OperationKind.ATTACH_CONSUMER
PRODUCER = OperationKind.ATTACH_PRODUCER
LOADING, NOT_ENOUGH_REPLICAS, GROUP_FULL = 14, 19, 81
DELAY, REJECT, REWRITE = Action.DELAY, Action.REJECT, Action.REWRITE


class Answers:
    """A policy that answers as a test says, by kind of operation and topic; a delay is of one second."""

    def __init__(self, answers: Mapping[tuple[OperationKind, str], Action]) -> None:
        self.answers = dict(answers)

    @hookimpl
    def sluicegate_policy_checks(
        self, topic: TopicName, policies: EffectivePolicies, context: TopicState
    ) -> Sequence[Check]:
        """Ask for the answers of the test."""

        def check(op: Operation, now_ns: int) -> Decision | None:
            action = self.answers.get((op.kind, op.topic))
            if action is None:
                return None
            return Decision(action, (Reason("p", Outcome.LIMIT_REACHED, "stop"),), delay_ns=SECOND)

        return [Check("p", (CREATE, CONSUMER, PRODUCER), check, Stage.RATE)]


def wire(answers: Mapping[tuple[OperationKind, str], Action], **policies: int) -> tuple[Wire, Answers]:
    """A client of a gate with such a policy; the broker has no groups yet."""
    plugin = Answers(answers)
    made = Wire(Bench({}, [plugin], **policies))
    made.shared.listing.learned({}, made.now, made.now)
    return made, plugin


def state(wire: Wire, topic: str = "t") -> TopicState:
    """What is counted for a topic."""
    return wire.shared.gate(topic, False, wire.now).state


def holds(wire: Wire, kind: OperationKind, topic: str = "t") -> tuple[int, float]:
    """How many operations of a kind were held, and for how many seconds together."""
    times = state(wire, topic).holds.get(kind, HoldTimes())
    return sum(times.counts), times.total_ns / SECOND


def waits(wire: Wire, seconds: float) -> None:
    """Let time pass, with a broker that has no groups whenever it is asked."""
    end = wire.now + int(seconds * SECOND)
    while wire.now < end:
        wire.shared.listing.learned({}, wire.now, wire.now)
        wire.wait(min(0.5, (end - wire.now) / SECOND))


def test_a_producer_that_a_plugin_rewrites_goes_on() -> None:
    one, _ = wire({(PRODUCER, "t"): REWRITE})
    one.client_sends(produce({"t": batch(b"x")}))
    assert len(one.forwarded()) == 1
    assert len(state(one).producers) == 1
    one.session.closed(one.now)
    assert len(state(one).producers) == 0


def test_a_consumer_without_a_group_that_a_plugin_rewrites_goes_on() -> None:
    one, _ = wire({(CONSUMER, "t"): REWRITE}, max_consumers_per_topic=5)
    one.client_sends(fetch("t"))
    one.broker_sends(fetched({"t": batch(b"x")}))
    assert fetch_errors(one.answered()[0]) == {"t": 0}
    one.session.closed(one.now)
    assert state(one).consumer_count == 0


def test_a_producer_held_for_too_long_or_gone_ends_its_hold() -> None:
    one, _ = wire({(PRODUCER, "t"): DELAY})
    one.client_sends(produce({"t": batch(b"x")}))
    waits(one, 10.1)
    assert outcome(one.answered()[0])["t", 0][0] == NOT_ENOUGH_REPLICAS
    assert holds(one, PRODUCER) == (1, 10)
    one.client_sends(produce({"t": batch(b"x")}))
    one.session.closed(one.now)
    assert holds(one, PRODUCER)[0] == 2


def test_a_consumer_without_a_group_that_goes_while_it_is_held_ends_its_hold() -> None:
    one, _ = wire({(CONSUMER, "t"): DELAY}, max_consumers_per_topic=5)
    one.client_sends(fetch("t"))
    one.broker_sends(fetched({"t": b""}))
    waits(one, 2)
    one.session.closed(one.now)
    assert holds(one, CONSUMER) == (1, 2)


def test_a_produce_whose_turn_comes_at_its_deadline_goes_on() -> None:
    one = Wire(Bench(max_publish_rate=1))
    one.client_sends(produce({"t": batch(*[b"x"] * 10)}))
    one.client_sends(produce({"t": batch(b"x")}, correlation_id=2))
    assert len(one.forwarded()) == 1
    one.wait(9.99)
    assert one.forwarded() == []
    one.wait(0.02)
    assert len(one.forwarded()) == 1
    assert holds(one, OperationKind.PUBLISH) == (1, 10)
