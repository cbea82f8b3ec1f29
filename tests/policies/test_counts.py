"""Producers, subscriptions and consumers: N are let in, the next is not, and places come free again."""

import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policies.lab import PolicyLab, attach_consumer, attach_producer, create_subscription, verdict

from sluicegate.engine.check import Check, Stage
from sluicegate.engine.gate import Gate
from sluicegate.engine.state import TopicState
from sluicegate.model import Action, EffectivePolicies, Operation, OperationKind, Outcome, TopicName

PRODUCERS = "max_producers_per_topic"
SUBSCRIPTIONS = "max_subscriptions_per_topic"
TOPIC_CONSUMERS = "max_consumers_per_topic"
SUBSCRIPTION_CONSUMERS = "max_consumers_per_subscription"


def over(policy: str) -> tuple[Action, str, Outcome]:
    return (Action.REJECT, policy, Outcome.LIMIT_REACHED)


@pytest.mark.seed("S1-001", "S1-030", "S1-031", "S1-041", "S1-100", "S1-104", "S1-122")
def test_the_last_place_is_given_and_the_next_producer_refused(lab: PolicyLab) -> None:
    gate = lab.gate({PRODUCERS: 2})

    assert gate.decide(attach_producer("one"), 0) is None
    assert gate.decide(attach_producer("two"), 0) is None
    refused = gate.decide(attach_producer("three"), 0)

    assert verdict(refused) == over(PRODUCERS)
    assert refused is not None
    assert refused.text == (
        "Producer limit reached for topic /default/orders. Current: 2, Limit: 2. "
        "Wait for existing producers to disconnect or increase max_producers_per_topic policy."
    )
    reason = refused.reasons[0]
    assert (reason.current, reason.limit, reason.level) == (2, 2, "topic")


@pytest.mark.seed("S1-030")
def test_a_known_producer_is_not_counted_again(lab: PolicyLab) -> None:
    gate = lab.gate({PRODUCERS: 1})
    gate.decide(attach_producer("one", "a"), 0)

    assert gate.decide(attach_producer("one", "b"), 0) is None
    assert gate.decide(attach_producer("one", "a"), 0) is None
    assert len(gate.state.producers) == 1


@pytest.mark.seed("S1-043")
def test_a_place_comes_free_when_the_last_connection_goes(lab: PolicyLab) -> None:
    gate = lab.gate({PRODUCERS: 1})
    gate.decide(attach_producer("one", "a"), 0)
    gate.decide(attach_producer("one", "b"), 0)

    gate.detach(attach_producer("one", "a"))
    assert verdict(gate.decide(attach_producer("two"), 0)) == over(PRODUCERS)
    gate.detach(attach_producer("one", "b"))
    assert gate.decide(attach_producer("two"), 0) is None


@pytest.mark.seed("S1-009", "S1-143")
def test_zero_and_unset_are_unlimited_and_cost_no_check(lab: PolicyLab) -> None:
    for values in ({}, dict.fromkeys((PRODUCERS, SUBSCRIPTIONS, TOPIC_CONSUMERS, SUBSCRIPTION_CONSUMERS), 0)):
        gate = lab.gate(values)
        assert not any(
            gate.asks(kind)
            for kind in OperationKind
            if kind is not OperationKind.PUBLISH  # the default size
        )
        assert all(gate.decide(attach_producer(str(number)), 0) is None for number in range(500))


@pytest.mark.seed("S1-024", "S1-125")
def test_a_changed_limit_counts_who_is_there_already(lab: PolicyLab) -> None:
    gate = lab.gate({})
    for number in range(5):
        gate.decide(attach_producer(str(number)), 0)

    gate = lab.gate({PRODUCERS: 3})
    assert verdict(gate.decide(attach_producer("new"), 0)) == over(PRODUCERS)
    # Attached clients stay.
    assert gate.decide(attach_producer("0", "b"), 0) is None
    gate = lab.gate({PRODUCERS: 6})
    assert gate.decide(attach_producer("new"), 0) is None


@pytest.mark.seed("S1-002", "S1-034", "S1-035", "S1-036", "S1-041", "S1-122")
def test_subscriptions_count_as_they_exist_on_the_broker(lab: PolicyLab) -> None:
    gate = lab.gate({SUBSCRIPTIONS: 2})
    gate.state.learn_subscriptions(["made elsewhere"])

    assert gate.decide(create_subscription("made elsewhere"), 0) is None
    assert gate.decide(create_subscription("second"), 0) is None
    refused = gate.decide(create_subscription("third"), 0)
    assert verdict(refused) == over(SUBSCRIPTIONS)
    assert refused is not None
    assert refused.text.startswith(
        "Subscription limit reached for topic /default/orders. Current: 2, Limit: 2."
    )

    gate.state.learn_subscriptions(["second"])
    assert gate.decide(create_subscription("third"), 0) is None


@pytest.mark.seed("S1-034")
def test_joining_an_existing_subscription_is_never_refused_as_new(lab: PolicyLab) -> None:
    gate = lab.gate({SUBSCRIPTIONS: 1})
    gate.state.learn_subscriptions(["one", "two", "three"])

    assert all(gate.decide(create_subscription(name), 0) is None for name in ("one", "two", "three"))


def test_a_limit_of_many_subscriptions_holds_at_the_first_listing(lab: PolicyLab) -> None:
    names = [f"s{number}" for number in range(1000)]
    gate = lab.gate({SUBSCRIPTIONS: 500})
    gate.state.learn_subscriptions(names)

    assert verdict(gate.decide(create_subscription("new"), 0)) == over(SUBSCRIPTIONS)
    assert all(gate.decide(create_subscription(name), 0) is None for name in names)


@pytest.mark.parametrize(("on_unknown", "admitted", "kept"), [("last", 300, 300), ("open", 2000, 256)])
@pytest.mark.parametrize("is_observed", [False, True])
def test_before_any_listing_a_limit_keeps_as_many_as_it_counts(
    lab: PolicyLab, on_unknown: str, admitted: int, kept: int, is_observed: bool
) -> None:
    values: dict[str, int | str] = {SUBSCRIPTIONS: 300, f"on_unknown.{SUBSCRIPTIONS}": on_unknown}
    gate = lab.gate({**values, f"mode.{SUBSCRIPTIONS}": "observe" if is_observed else "enforce"})
    for number in range(2000):
        if gate.decide(create_subscription(f"s{number}"), number) is None:
            gate.state.confirm(f"s{number}")

    assert len(lab.sink.decisions) == 2000 - admitted
    assert gate.state.subscription_count <= (2 if is_observed else 1) * kept


def test_once_no_policy_counts_them_existing_subscriptions_do_not_accumulate(lab: PolicyLab) -> None:
    gate = lab.gate({SUBSCRIPTIONS: 5000})
    gate.state.learn_subscriptions(["one"])
    lab.gate({SUBSCRIPTIONS: 5000}, exempt=True)
    assert gate.decide(create_subscription("two"), 0) is None

    gate = lab.gate({})
    for number in range(2000):
        assert gate.decide(create_subscription(f"s{number}"), number) is None

    assert len(gate.state.subscriptions) <= 256
    again = lab.gate({SUBSCRIPTIONS: 5000})
    refused = again.decide(create_subscription("new"), 0)
    assert verdict(refused) == (Action.REJECT, SUBSCRIPTIONS, Outcome.PRECONDITION)


@pytest.mark.seed("S1-102")
@pytest.mark.parametrize(
    ("on_unknown", "known"), [("pause", "paused"), ("open", "open"), ("last", "last"), (None, "paused")]
)
def test_while_the_list_is_unknown_on_unknown_applies(
    lab: PolicyLab, on_unknown: str | None, known: str
) -> None:
    values: dict[str, int | str] = {SUBSCRIPTIONS: 1}
    if on_unknown:
        values[f"on_unknown.{SUBSCRIPTIONS}"] = on_unknown
    gate = lab.gate(values)
    gate.state.subscription("there").exists = True

    answer = gate.decide(create_subscription("new"), 0)

    expected = {
        "paused": (Action.REJECT, SUBSCRIPTIONS, Outcome.PRECONDITION),
        "open": None,
        "last": over(SUBSCRIPTIONS),
    }
    assert verdict(answer) == expected[known]
    assert gate.decide(create_subscription("there"), 0) is None


@pytest.mark.seed("S1-003", "S1-037", "S1-041", "S1-122")
def test_consumers_of_a_topic_are_summed_over_its_subscriptions(lab: PolicyLab) -> None:
    gate = lab.gate({TOPIC_CONSUMERS: 3})
    for number in range(3):
        assert gate.decide(attach_consumer(f"c{number}", f"s{number % 2}"), 0) is None

    refused = gate.decide(attach_consumer("c3", "s2"), 0)
    assert verdict(refused) == over(TOPIC_CONSUMERS)
    assert refused is not None
    assert refused.text.startswith(
        "Consumer limit per topic reached for /default/orders. Current: 3, Limit: 3."
    )
    assert gate.decide(attach_consumer("c0", "s0", "b"), 0) is None


@pytest.mark.seed("S1-004", "S1-038", "S1-041", "S1-122", "S1-148")
def test_consumers_of_each_subscription_have_their_own_limit(lab: PolicyLab) -> None:
    gate = lab.gate({SUBSCRIPTION_CONSUMERS: 1})

    assert gate.decide(attach_consumer("c0", "s0"), 0) is None
    assert gate.decide(attach_consumer("c1", "s1"), 0) is None
    refused = gate.decide(attach_consumer("c2", "s1"), 0)
    assert verdict(refused) == over(SUBSCRIPTION_CONSUMERS)
    assert refused is not None
    assert refused.text.startswith(
        "Consumer limit per subscription reached on topic /default/orders subscription s1. "
        "Current: 1, Limit: 1."
    )
    assert gate.decide(attach_consumer("c1", "s1", "b"), 0) is None

    gate.detach(attach_consumer("c1", "s1"))
    gate.detach(attach_consumer("c1", "s1", "b"))
    assert gate.decide(attach_consumer("c2", "s1"), 0) is None


def test_a_consumer_of_no_subscription_counts_to_the_topic_only(lab: PolicyLab) -> None:
    gate = lab.gate({TOPIC_CONSUMERS: 3, SUBSCRIPTION_CONSUMERS: 1})

    assert all(gate.decide(attach_consumer(f"c{number}", ""), 0) is None for number in range(3))
    assert gate.state.subscription_count == 0
    assert verdict(gate.decide(attach_consumer("c3", ""), 0)) == over(TOPIC_CONSUMERS)


@pytest.mark.seed("S1-040")
def test_the_topics_limit_is_reported_before_the_subscriptions(lab: PolicyLab) -> None:
    gate = lab.gate({TOPIC_CONSUMERS: 1, SUBSCRIPTION_CONSUMERS: 1})
    gate.decide(attach_consumer("c0"), 0)

    assert verdict(gate.decide(attach_consumer("c1"), 0)) == over(TOPIC_CONSUMERS)


def test_exempt_principals_neither_meet_nor_use_up_a_limit(lab: PolicyLab) -> None:
    values = {PRODUCERS: 1, TOPIC_CONSUMERS: 1}
    exempt = lab.gate(values, exempt=True)
    for number in range(5):
        assert exempt.decide(attach_producer(f"e{number}"), 0) is None
        assert exempt.decide(attach_consumer(f"e{number}"), 0) is None

    gate = lab.gate(values)
    assert gate.decide(attach_producer("p"), 0) is None
    assert gate.decide(attach_consumer("c"), 0) is None


class Dawdling:
    """A plugin that gives way to other threads between the limits' checks and the taking of the place."""

    def sluicegate_policy_checks(
        self, topic: TopicName, policies: EffectivePolicies, context: TopicState
    ) -> list[Check]:
        return [Check("dawdle", tuple(OperationKind), lambda op, now_ns: time.sleep(0.0002), Stage.ACCOUNT)]


def race(gate: Gate, operations: list[Operation]) -> int:
    """Let threads decide operations all at once; how many were let in."""
    start = threading.Barrier(len(operations))
    admitted: list[bool] = []

    def decide(op: Operation) -> None:
        start.wait()
        admitted.append(gate.decide(op, 0) is None)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=decide, args=(op,)) for op in operations]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    return sum(admitted)


@pytest.mark.seed("S1-032", "S1-042")
def test_racing_attachments_never_exceed_a_limit() -> None:
    for _ in range(3):
        lab = PolicyLab()
        lab.plugins.append(Dawdling())
        gate = lab.gate({PRODUCERS: 5, TOPIC_CONSUMERS: 7, SUBSCRIPTION_CONSUMERS: 4, SUBSCRIPTIONS: 3})
        gate.state.learn_subscriptions([])

        assert race(gate, [attach_producer(str(number)) for number in range(20)]) == 5
        assert race(gate, [create_subscription(f"s{number}") for number in range(20)]) == 3
        assert race(gate, [attach_consumer(str(number), f"s{number % 3}") for number in range(20)]) == 7
        assert len(gate.state.producers) == 5
        assert gate.state.consumer_count == 7
        assert all(len(found.consumers) <= 4 for found in gate.state.subscriptions.values())


@pytest.mark.seed("S1-042", "S1-043")
@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["attach", "detach", "recompile"]),
            st.integers(0, 5),
            st.sampled_from(["a", "b"]),
        ),
        max_size=60,
    )
)
def test_no_interleaving_exceeds_a_limit_or_leaks_a_place(steps: list[tuple[str, int, str]]) -> None:
    lab = PolicyLab()
    gate = lab.gate({PRODUCERS: 3})
    attached: dict[str, set[str]] = {}
    for action, number, client in steps:
        producer = str(number)
        if action == "recompile":
            gate = lab.gate({PRODUCERS: 3})
        elif action == "detach":
            gate.detach(attach_producer(producer, client))
            attached.get(producer, set()).discard(client)
            attached = {key: refs for key, refs in attached.items() if refs}
        elif action == "attach":
            answer = gate.decide(attach_producer(producer, client), 0)
            assert (answer is None) == (producer in attached or len(attached) < 3)
            if answer is None:
                attached.setdefault(producer, set()).add(client)
        assert len(gate.state.producers) == len(attached) <= 3
