"""Lists of subscriptions: how long one counts as new, and when one is needed."""

import pytest
from tests.engine.lab import TOPIC, KeepingSink

from sluicegate.engine.check import Check
from sluicegate.engine.compiling import compile_gate
from sluicegate.engine.gate import Gate, GateFaults
from sluicegate.engine.state import TopicState
from sluicegate.model import EffectivePolicies, OperationKind
from sluicegate.sessions.admission import depends_on_list, exists
from sluicegate.sessions.listings import _MAX_TOPICS, Listings

_S = 1_000_000_000


def gate_that_asks(*kinds: OperationKind) -> Gate:
    """A gate whose one check looks at these operations and allows them."""
    check = Check("mine", kinds, lambda op, now_ns: None)
    policies = EffectivePolicies(TOPIC.full, 1, {}, {}, False)
    return compile_gate(
        TOPIC, policies, TopicState(TOPIC, 0), [check], None, KeepingSink(), GateFaults(), False, frozenset()
    )


def test_an_answer_is_fresh_for_as_long_as_it_is_valid() -> None:
    listings = Listings(valid_ns=_S)
    assert not listings.fresh("t", 5 * _S)
    listings.answered("t", 5 * _S)
    assert listings.fresh("t", 5 * _S)
    assert listings.fresh("t", 6 * _S)
    assert not listings.fresh("t", 6 * _S + 1)
    assert not listings.fresh("u", 5 * _S)


def test_an_answer_that_is_outdated_is_not_fresh() -> None:
    listings = Listings()
    listings.answered("t", _S)
    listings.outdated("t")
    listings.outdated("never told")
    assert not listings.fresh("t", _S)


def test_the_topic_listed_longest_ago_is_evicted_first() -> None:
    listings = Listings()
    for number in range(_MAX_TOPICS):
        listings.answered(str(number), _S)
    listings.answered("0", _S)
    listings.answered("one more", _S)
    assert listings.fresh("0", _S)
    assert not listings.fresh("1", _S)
    assert listings.fresh("2", _S)
    assert listings.fresh("one more", _S)


def test_a_subscription_exists_once_the_broker_listed_it_not_when_it_was_asked_about() -> None:
    state = TopicState(TOPIC, 0)
    state.learn_subscriptions(["listed"])
    state.subscription("asked about")

    assert [exists(name, state) for name in ("listed", "asked about", "unheard of")] == [True, False, False]


def test_the_list_matters_where_creating_is_checked_and_the_subscription_is_not_known() -> None:
    gate = gate_that_asks(OperationKind.CREATE_SUBSCRIPTION)
    gate.state.learn_subscriptions(["listed"])

    assert depends_on_list("new", gate)
    assert not depends_on_list("listed", gate)


@pytest.mark.parametrize("kinds", [(), (OperationKind.PUBLISH,)])
def test_the_list_does_not_matter_where_creating_is_not_checked(kinds: tuple[OperationKind, ...]) -> None:
    assert not depends_on_list("new", gate_that_asks(*kinds))
