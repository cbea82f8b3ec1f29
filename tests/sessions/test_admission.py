"""How requests to attach are admitted: places are taken, kept while a request is held, and given back."""

from collections.abc import Sequence

import pytest

from sluicegate.engine.check import Check, Stage
from sluicegate.engine.gate import Gate
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
from sluicegate.sessions.admission import Admission, Creation
from sluicegate.sessions.listings import Listings
from sluicegate.testing.gates import TOPIC, build_gate

_S = 1_000_000_000
_CREATE, _ATTACH = OperationKind.CREATE_SUBSCRIPTION, OperationKind.ATTACH_CONSUMER


def decision(action: Action, delay_ns: int = 0) -> Decision:
    return Decision(action, (Reason("p", Outcome.LIMIT_REACHED, "stop"),), delay_ns=delay_ns)


class Answers:
    """A policy that answers as a test says, by kind of operation."""

    def __init__(self, **answers: Decision | None) -> None:
        self.answers = answers

    @hookimpl
    def sluicegate_policy_checks(
        self, topic: TopicName, policies: EffectivePolicies, context: TopicState
    ) -> Sequence[Check]:
        def check(op: Operation, now_ns: int) -> Decision | None:
            return self.answers.get("create" if op.kind is _CREATE else "attach")

        return [Check("p", (_CREATE, _ATTACH), check, Stage.RATE)]


def gate(**answers: Decision | None) -> tuple[Gate, Answers]:
    plugin = Answers(**answers)
    return build_gate({"max_subscriptions_per_topic": 1}, [plugin], now_ns=_S), plugin


def admission(consumer: str = "c", subscription: str = "s") -> Admission:
    attach = Operation(_ATTACH, TOPIC.full, "p", "client", subscription=subscription, consumer=consumer)
    return Admission(attach, Operation(_CREATE, TOPIC.full, "p", "client", subscription=subscription))


def test_both_places_are_taken_and_given_back_together() -> None:
    found, _ = gate()
    found.state.learn_subscriptions(())
    first = admission()
    assert first.decide(found, _S) is None
    assert (found.state.subscription_count, found.state.consumer_count) == (1, 1)
    found.detach(first.attach)
    first.withdraw(found, _S)
    assert (found.state.subscription_count, found.state.consumer_count) == (0, 0)


def test_a_subscription_that_was_there_is_not_taken_back() -> None:
    found, _ = gate(attach=decision(Action.REJECT))
    found.state.learn_subscriptions(("s",))
    request = admission()
    assert request.decide(found, _S) is not None
    request.withdraw(found, _S)
    assert found.state.subscription_count == 1


def test_a_subscription_that_the_broker_confirmed_is_not_taken_back() -> None:
    found, _ = gate()
    found.state.learn_subscriptions(())
    request = admission()
    request.decide(found, _S)
    request.confirmed(found)
    assert not request.created
    found.detach(request.attach)
    request.withdraw(found, _S)
    assert found.state.subscription_count == 1


def test_a_subscription_that_two_requests_create_is_there_until_both_are_refused() -> None:
    found, _ = gate()
    found.state.learn_subscriptions(())
    first, second = admission("a"), admission("b")
    for each in (first, second):
        assert each.decide(found, _S) is None
    found.detach(first.attach)
    first.take_back(found)
    assert found.state.subscription_count == 1
    found.detach(second.attach)
    second.take_back(found)
    assert found.state.subscription_count == 0


def test_a_request_takes_its_own_part_back_once() -> None:
    found, _ = gate()
    found.state.learn_subscriptions(())
    first, second = Creation(admission().create), Creation(admission().create)
    for each in (first, second):
        assert each.decide_creation(found, _S) is None
    for _again in range(2):
        first.take_back(found)
    assert (first.is_admitted, first.created) == (False, False)
    assert found.state.subscription_count == 1


@pytest.mark.parametrize("listed", [False, True])
def test_a_request_that_is_refused_leaves_what_another_one_created(listed: bool) -> None:
    found, _ = gate()
    found.state.learn_subscriptions(())
    first, second = Creation(admission().create), Creation(admission().create)
    for each in (first, second):
        assert each.decide_creation(found, _S) is None
    if listed:
        found.state.learn_subscriptions(("s",))
    else:
        second.confirmed(found)
    first.take_back(found)
    assert found.state.subscription_count == 1
    third = Creation(admission().create)
    assert (third.decide_creation(found, _S), third.created) == (None, False)


def test_a_subscription_that_the_broker_has_lost_is_recreated() -> None:
    found, _ = gate()
    found.state.learn_subscriptions(())
    lost, request = Creation(admission().create), Creation(admission().create)
    lost.decide_creation(found, _S)
    found.state.learn_subscriptions((), asked_ns=2 * _S)
    assert found.state.subscription_count == 0
    request.decide_creation(found, 2 * _S)
    request.take_back(found)
    assert found.state.subscription_count == 0


def test_a_subscription_keeps_its_place_while_its_consumer_is_held() -> None:
    found, plugin = gate(attach=decision(Action.DELAY, _S))
    found.state.learn_subscriptions(())
    request = admission()
    assert request.decide(found, _S) is not None
    assert admission(subscription="other").decide(found, _S) is not None
    plugin.answers["attach"] = None
    assert request.decide(found, 2 * _S) is None
    assert found.state.holds[_ATTACH].total_ns == _S


def test_a_place_that_a_new_list_gave_to_others_is_asked_for_again() -> None:
    found, plugin = gate(attach=decision(Action.DELAY, _S))
    found.state.learn_subscriptions(())
    request = admission()
    assert request.decide(found, _S) is not None
    found.state.learn_subscriptions(("other",), asked_ns=2 * _S)
    plugin.answers["attach"] = None
    assert request.decide(found, 3 * _S) is not None
    assert (request.is_admitted, request.created) == (False, False)
    request.withdraw(found, 3 * _S)
    assert (found.state.subscription_count, found.state.consumer_count) == (1, 0)


def test_a_request_that_is_withdrawn_ends_all_its_holds() -> None:
    found, _ = gate(create=decision(Action.DELAY, _S))
    found.state.learn_subscriptions(())
    request = admission()
    request.decide(found, _S)
    request.decide(found, 2 * _S)
    assert found.state.delayed == 1
    request.withdraw(found, 3 * _S)
    assert found.state.holds[_CREATE].total_ns == 2 * _S


@pytest.mark.parametrize("asked", ["create", "attach"])
def test_an_answer_to_rewrite_lets_a_request_attach(asked: str) -> None:
    found, _ = gate(**{asked: decision(Action.REWRITE)})
    found.state.learn_subscriptions(())
    assert admission().decide(found, _S) is None


def test_the_broker_is_asked_once_before_each_decision_on_an_old_list() -> None:
    found, plugin = gate(create=decision(Action.DELAY, _S))
    listings, request = Listings(_S), admission()
    assert request.lists_first(found, listings, _S)
    assert not request.lists_first(found, listings, _S)
    request.decide(found, _S)
    assert request.lists_first(found, listings, 2 * _S)
    listings.answered(TOPIC.full, 2 * _S)
    assert not request.lists_first(found, listings, 2 * _S)
    assert not request.lists_first(found, listings, 3 * _S)
    plugin.answers["create"] = None
    found.state.learn_subscriptions(())
    assert request.decide(found, 3 * _S) is None
    found.state.subscription("s").exists = False
    assert not request.lists_first(found, listings, 9 * _S)


def test_the_broker_is_not_asked_where_nothing_depends_on_its_answer() -> None:
    found, _ = gate()
    found.state.learn_subscriptions(("s",))
    assert not admission().lists_first(found, Listings(), _S)
    assert not Creation(None).lists_first(found, Listings(), _S)
    unlimited = build_gate({}, now_ns=_S)
    assert not admission().lists_first(unlimited, Listings(), _S)
