"""Who attaches is admitted as in front of any other broker: rewritten, held to one deadline, taken back."""

from collections.abc import Mapping, Sequence

import pytest
from kio.schema.errors import ErrorCode
from tests.kafka.session.groups.test_memberships import heartbeat
from tests.kafka.session.groups.test_patterns import answers_questions, beat, told
from tests.kafka.session.messages import (
    batch,
    fetch,
    fetch_errors,
    fetched,
    join,
    join_error,
    joined,
    outcome,
    produce,
    records_of,
)
from tests.kafka.session.requests.test_slices import commit
from tests.kafka.session.wire import SECOND, Bench, Wire

from sluicegate.engine.check import Check, Stage
from sluicegate.engine.held import HoldTimes
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
PUBLISH, DISPATCH = OperationKind.PUBLISH, OperationKind.DISPATCH
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

        return [Check("p", (CREATE, CONSUMER, PRODUCER, PUBLISH, DISPATCH), check, Stage.RATE)]


def wire(answers: Mapping[tuple[OperationKind, str], Action], **policies: int) -> tuple[Wire, Answers]:
    """A client of a gateway with such a policy; the broker has no groups yet."""
    plugin = Answers(answers)
    made = Wire(Bench({}, [plugin], **policies))
    made.shared.learned.listing.learned({}, made.now, made.now)
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
        wire.shared.learned.listing.learned({}, wire.now, wire.now)
        wire.wait(min(0.5, (end - wire.now) / SECOND))


@pytest.mark.parametrize("kind", [CREATE, CONSUMER])
def test_a_join_that_a_plugin_rewrites_is_forwarded(kind: OperationKind) -> None:
    one, _ = wire({(kind, "t"): REWRITE})
    one.client_sends(join("g", "t", member="m"))
    assert len(one.forwarded()) == 1
    one.broker_sends(joined("m"))
    assert join_error(one.answered()[0]) == 0
    assert (state(one).subscription_count, state(one).consumer_count) == (1, 1)
    one.session.closed(one.now)
    assert state(one).consumer_count == 0


def test_a_commit_that_a_plugin_rewrites_is_forwarded() -> None:
    one, _ = wire({(CREATE, "t"): REWRITE})
    one.client_sends(commit("g", {"t": 1}))
    assert len(one.forwarded()) == 1
    assert state(one).subscription_count == 1


def test_a_producer_that_a_plugin_rewrites_is_forwarded() -> None:
    one, _ = wire({(PRODUCER, "t"): REWRITE})
    one.client_sends(produce({"t": batch(b"x")}))
    assert len(one.forwarded()) == 1
    assert len(state(one).producers) == 1
    one.session.closed(one.now)
    assert len(state(one).producers) == 0


def test_a_consumer_without_a_group_that_a_plugin_rewrites_is_served() -> None:
    one, _ = wire({(CONSUMER, "t"): REWRITE}, max_consumers_per_topic=5)
    one.client_sends(fetch("t"))
    one.broker_sends(fetched({"t": batch(b"x")}))
    assert fetch_errors(one.answered()[0]) == {"t": 0}
    one.session.closed(one.now)
    assert state(one).consumer_count == 0


@pytest.mark.parametrize("request_of", [lambda: join("g", "t", member="m"), lambda: commit("g", {"t": 1})])
def test_a_subscription_that_is_delayed_is_recorded_once_until_it_is_admitted(
    request_of: type[bytes],
) -> None:
    one, plugin = wire({(CREATE, "t"): DELAY})
    one.client_sends(request_of())
    waits(one, 3.5)
    assert one.forwarded() == []
    plugin.answers.clear()
    waits(one, 1)
    assert len(one.forwarded()) == 1
    assert state(one).delayed == 1
    assert holds(one, CREATE) == (1, 4)


@pytest.mark.parametrize("kind", [CREATE, CONSUMER])
def test_a_join_that_is_held_for_too_long_ends_its_hold(kind: OperationKind) -> None:
    one, _ = wire({(kind, "t"): DELAY})
    one.client_sends(join("g", "t", member="m"))
    waits(one, 9.9)
    assert one.downstream == b""
    waits(one, 0.2)
    assert join_error(one.answered()[0]) == LOADING
    assert (state(one).delayed, holds(one, kind)) == (1, (1, 10))
    assert (state(one).subscription_count, state(one).consumer_count) == (0, 0)
    assert one.shared.counts["join_hold_timed_out"] == 1


@pytest.mark.parametrize("kind", [CREATE, CONSUMER])
def test_a_client_that_goes_while_its_join_is_held_leaves_nothing(kind: OperationKind) -> None:
    one, _ = wire({(kind, "b"): DELAY})
    one.client_sends(join("g", "a", "b", member="m"))
    waits(one, 2.5)
    assert (state(one, "a").subscription_count, state(one, "a").consumer_count) == (1, 1)
    one.session.closed(one.now)
    assert holds(one, kind, "b") == (1, 2.5)
    for topic in "ab":
        assert (state(one, topic).subscription_count, state(one, topic).consumer_count) == (0, 0)
    assert one.shared.budget.used == 0


def test_a_new_subscription_keeps_its_place_while_its_member_is_held() -> None:
    one, plugin = wire({(CONSUMER, "t"): DELAY}, max_subscriptions_per_topic=1)
    one.client_sends(join("g", "t", member="m"))
    two = Wire(Bench(), one.shared, peer="10.0.0.2:1")
    two.client_sends(join("h", "t", member="n"))
    assert join_error(two.answered()[0]) == GROUP_FULL
    plugin.answers.clear()
    waits(one, 1)
    assert len(one.forwarded()) == 1
    one.broker_sends(joined("", ErrorCode.group_authorization_failed))
    assert state(one).subscription_count == 0


def test_one_deadline_holds_for_all_topics_of_a_join_from_the_first_delay_on() -> None:
    one, plugin = wire({(kind, "a"): DELAY for kind in (CREATE, CONSUMER)} | {(CREATE, "b"): DELAY})
    one.client_sends(join("g", "a", "b", member="m"))
    waits(one, 4.5)
    del plugin.answers[CREATE, "a"]
    waits(one, 3)
    del plugin.answers[CONSUMER, "a"]
    waits(one, 2.4)
    assert one.downstream == b""
    waits(one, 0.2)
    assert join_error(one.answered()[0]) == LOADING
    assert holds(one, CREATE, "b")[0] == 1


def test_an_assignment_on_the_same_connection_moves_no_deadline_of_a_held_join() -> None:
    one, _ = wire({(CONSUMER, "v"): DELAY}, max_consumers_per_topic=5)
    one.client_sends(beat(group="other"))
    one.client_sends(join("g", "v", member="m"))
    one.forwarded()
    waits(one, 5.5)
    one.broker_sends(told({"t": [0]}))
    answers_questions(one)
    assert len(one.answered()) == 1
    waits(one, 4.6)
    assert join_error(one.answered()[0]) == LOADING


def test_an_assignment_that_is_delayed_has_its_client_try_again_and_ends_its_hold() -> None:
    one, _ = wire({(CONSUMER, "t"): DELAY}, max_consumers_per_topic=5)
    one.client_sends(beat())
    one.forwarded()
    one.broker_sends(told({"t": [0]}))
    answers_questions(one)
    assert len(one.answered()) == 1
    assert holds(one, CONSUMER) == (1, 0)
    assert (state(one).subscription_count, state(one).consumer_count) == (0, 0)


def test_a_commit_refused_for_one_topic_after_a_hold_gives_all_back() -> None:
    one, plugin = wire({(CREATE, "b"): DELAY})
    one.client_sends(commit("g", {"a": 1, "b": 1, "c": 1}))
    waits(one, 1.5)
    assert (one.forwarded(), state(one, "a").subscription_count) == ([], 1)
    plugin.answers[CREATE, "b"] = REJECT
    waits(one, 1)
    assert len(one.answered()) == 1
    assert [state(one, topic).subscription_count for topic in "abc"] == [0, 0, 0]
    assert holds(one, CREATE, "b") == (1, 2)


def test_a_commit_whose_client_goes_while_it_is_held_gives_all_back() -> None:
    one, _ = wire({(CREATE, "b"): DELAY})
    one.client_sends(commit("g", {"a": 1, "b": 1}))
    waits(one, 2.5)
    one.session.closed(one.now)
    assert [state(one, topic).subscription_count for topic in "ab"] == [0, 0]
    assert holds(one, CREATE, "b") == (1, 2.5)


def test_a_heartbeat_is_held_and_forwarded_as_a_join_is() -> None:
    one, plugin = wire({(CONSUMER, "t"): DELAY})
    one.client_sends(heartbeat("t"))
    waits(one, 2.5)
    plugin.answers.clear()
    waits(one, 1)
    assert len(one.forwarded()) == 1
    assert (state(one).delayed, holds(one, CONSUMER)) == (1, (1, 3))


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


def test_a_produce_whose_turn_is_at_its_deadline_is_forwarded() -> None:
    one = Wire(Bench(max_publish_rate=1))
    one.client_sends(produce({"t": batch(*[b"x"] * 10)}))
    one.client_sends(produce({"t": batch(b"x")}, correlation_id=2))
    assert len(one.forwarded()) == 1
    one.wait(9.99)
    assert one.forwarded() == []
    one.wait(0.02)
    assert len(one.forwarded()) == 1
    assert holds(one, PUBLISH) == (1, 10)


def test_messages_that_a_plugin_rewrites_are_delivered() -> None:
    one, _ = wire({(PUBLISH, "t"): REWRITE, (DISPATCH, "t"): REWRITE}, max_dispatch_rate=1_000)
    for _ in range(4):  # the third one looks like the one before, and is passed by that
        one.client_sends(produce({"t": batch(b"x")}))
    assert len(one.forwarded()) == 4
    assert state(one).allowed_messages == 4
    two = Wire(Bench(), one.shared, peer="10.0.0.2:1")
    two.client_sends(fetch("t"))
    two.broker_sends(fetched({"t": batch(b"x")}))
    assert records_of(two.answered()[0]) == {"t": batch(b"x")}


def test_a_consumer_that_goes_while_its_records_are_held_ends_its_hold() -> None:
    one = Wire(Bench(max_dispatch_rate=1))
    one.client_sends(fetch("t"))
    one.broker_sends(fetched({"t": batch(b"x") * 2}))
    one.session.closed(one.now)
    assert holds(one, DISPATCH) == (1, 0)
