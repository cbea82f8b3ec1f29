"""Limits on the number of producers, subscriptions and consumers of a topic.

A limit N admits the N-th and refuses the next. Existing attachments are never refused as new ones. The gate
runs these checks and registers the attachment in one step, under the topic's lock. Where a scope sets the
limit, those in it are counted apart from all others.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar

from sluicegate.config import Count, PolicyModel
from sluicegate.config.asking import only_with
from sluicegate.config.models import OnLimit
from sluicegate.engine import texts
from sluicegate.engine.check import Check, CheckCall, Stage
from sluicegate.engine.scoping import Sharers
from sluicegate.engine.shared_limits import Key
from sluicegate.engine.state import SubscriptionState, TopicState
from sluicegate.hooks import hookimpl
from sluicegate.model import Decision, EffectivePolicies, Operation, OperationKind, Outcome, TopicName
from sluicegate.policies.shared_counts import SharedCount
from sluicegate.policies.stopping import rejected

PRODUCERS = "max_producers_per_topic"
SUBSCRIPTIONS = "max_subscriptions_per_topic"
TOPIC_CONSUMERS = "max_consumers_per_topic"
SUBSCRIPTION_CONSUMERS = "max_consumers_per_subscription"
_LIMITS = (PRODUCERS, SUBSCRIPTIONS, TOPIC_CONSUMERS, SUBSCRIPTION_CONSUMERS)


class CountPolicies(PolicyModel):
    """Limits on simultaneous attachments."""

    on_limit_actions: ClassVar[Mapping[str, tuple[OnLimit, ...]]] = dict.fromkeys(_LIMITS, ("reject",))
    on_unknown_policies: ClassVar[frozenset[str]] = frozenset({SUBSCRIPTIONS})
    scoped_by_groups: ClassVar[frozenset[str]] = frozenset({SUBSCRIPTIONS})

    max_producers_per_topic: Count | None = None
    """Producers attached to one topic at the same time; 0 is unlimited. A few times the usual number of
    producers is a good value."""
    max_subscriptions_per_topic: Count | None = None
    """Subscriptions (consumer groups) that exist on one topic; 0 is unlimited. Protects against clients that
    create a new subscription at every start."""
    max_consumers_per_topic: Count | None = None
    """Consumers attached to one topic, over all subscriptions; 0 is unlimited."""
    max_consumers_per_subscription: Count | None = None
    """Consumers attached to one subscription; 0 is unlimited. On Kafka, consumers beyond the number of
    partitions are idle."""


@hookimpl
def sluicegate_policy_model() -> type[PolicyModel]:
    """Add the four limits."""
    return CountPolicies


@hookimpl
@only_with(_LIMITS)
def sluicegate_policy_checks(
    topic: TopicName, policies: EffectivePolicies, context: TopicState
) -> Sequence[Check]:
    """Check attachments; for consumers the topic's limit precedes the subscription's."""
    builders = (
        (PRODUCERS, OperationKind.ATTACH_PRODUCER, _producers),
        (SUBSCRIPTIONS, OperationKind.CREATE_SUBSCRIPTION, _subscriptions),
        (TOPIC_CONSUMERS, OperationKind.ATTACH_CONSUMER, _topic_consumers),
        (SUBSCRIPTION_CONSUMERS, OperationKind.ATTACH_CONSUMER, _subscription_consumers),
    )
    return [
        Check(policy, (kind,), build(context, int(policies.number(policy)), policies), Stage.COUNT)
        for policy, kind, build in builders
        if policies.number(policy) > 0
    ]


def _producers(state: TopicState, limit: int, policies: EffectivePolicies) -> CheckCall:
    sharers = Sharers(state, policies, PRODUCERS)
    shared = SharedCount(state, policies, PRODUCERS, sharers, lambda: sharers.keys(state.producers, ""))

    def check(op: Operation, now_ns: int) -> Decision | None:
        current = sharers.count(state.producers, "", limit)
        if op.producer in state.producers:
            return None
        if current < limit:
            current = shared.ask(op.producer, op.roams, now_ns)
            if current < 0:
                return shared.decision(current)
        return _reached(policies, PRODUCERS, partial(texts.producers, state.topic.full), current, limit)

    return check


def _subscriptions(state: TopicState, limit: int, policies: EffectivePolicies) -> CheckCall:
    on_unknown = policies.text(f"on_unknown.{SUBSCRIPTIONS}", "pause")
    state.subscriptions_needed = limit if on_unknown == "last" else 0
    sharers = Sharers(state, policies, SUBSCRIPTIONS)

    def existing() -> Iterator[SubscriptionState]:
        subscriptions = tuple(state.subscriptions.values())
        return (each for each in subscriptions if each.exists and sharers.include("", "", each.name))

    # The broker's list tells all gateways what exists. It is older than what others create at this moment.
    shared = SharedCount(
        state,
        policies,
        SUBSCRIPTIONS,
        sharers,
        lambda: ((each.name, True) for each in existing()),
        lambda: ((each.name, True) for each in existing() if each.creating),
    )

    def check(op: Operation, now_ns: int) -> Decision | None:
        known = state.subscriptions.get(op.subscription)
        if known is not None and known.exists:
            return None
        if not state.subscriptions_known and on_unknown != "last":
            if on_unknown == "open":
                return None
            unknown = texts.subscriptions_unknown(state.topic.full, limit)
            return rejected(policies, SUBSCRIPTIONS, unknown, 0, limit, Outcome.PRECONDITION)
        current = state.subscription_count
        if current >= limit and not sharers.are_all:
            current = sum(1 for _ in existing())
        if current < limit:
            current = shared.ask(op.subscription, True, now_ns)
            if current < 0:
                return shared.decision(current)
        text = partial(texts.subscriptions, state.topic.full)
        return _reached(policies, SUBSCRIPTIONS, text, current, limit)

    return check


def _attached(state: TopicState, op: Operation) -> bool:
    subscription = state.subscriptions.get(op.subscription)
    return subscription is not None and op.consumer in subscription.consumers


def _topic_consumers(state: TopicState, limit: int, policies: EffectivePolicies) -> CheckCall:
    sharers = Sharers(state, policies, TOPIC_CONSUMERS)

    def present() -> Iterator[Key]:
        for each in tuple(state.subscriptions.values()):
            for key, roams in sharers.keys(each.consumers, each.name):
                yield f"{each.name}/{key}", roams

    shared = SharedCount(state, policies, TOPIC_CONSUMERS, sharers, present)

    def check(op: Operation, now_ns: int) -> Decision | None:
        if _attached(state, op):
            return None
        current = state.consumer_count
        if current >= limit and not sharers.are_all:
            subscriptions = state.subscriptions.values()
            current = sum(sharers.count(each.consumers, each.name) for each in subscriptions)
        if current < limit:
            current = shared.ask(f"{op.subscription}/{op.consumer}", op.roams, now_ns)
            if current < 0:
                return shared.decision(current)
        text = partial(texts.consumers_of_topic, state.topic.full)
        return _reached(policies, TOPIC_CONSUMERS, text, current, limit)

    return check


def _subscription_consumers(state: TopicState, limit: int, policies: EffectivePolicies) -> CheckCall:
    sharers = Sharers(state, policies, SUBSCRIPTION_CONSUMERS)

    def shared_by(name: str) -> SharedCount:
        def present() -> Iterator[Key]:
            known = state.subscriptions.get(name)
            return iter(()) if known is None else sharers.keys(known.consumers, name)

        return SharedCount(state, policies, SUBSCRIPTION_CONSUMERS, sharers, present, subscription=name)

    is_alone = state.broker.places is None
    for name in () if is_alone else tuple(state.subscriptions):
        shared_by(name)

    def check(op: Operation, now_ns: int) -> Decision | None:
        if not op.subscription or _attached(state, op):  # without one, only the topic's limit applies
            return None
        subscription = state.subscriptions.get(op.subscription)
        current = 0
        if subscription is not None:
            current = sharers.count(subscription.consumers, subscription.name, limit)
        if current < limit:
            if is_alone:
                return None
            shared = shared_by(op.subscription)
            current = shared.ask(op.consumer, op.roams, now_ns)
            if current < 0:
                return shared.decision(current)
        text = partial(texts.consumers_of_subscription, state.topic.full, op.subscription)
        return _reached(policies, SUBSCRIPTION_CONSUMERS, text, current, limit)

    return check


def _reached(
    policies: EffectivePolicies, policy: str, text: Callable[[int, float], str], current: int, limit: int
) -> Decision:
    """Refuse one more. If fewer have places than the limit, another gateway knows a lower one."""
    lowest = min(limit, current)
    return rejected(policies, policy, text(current, lowest), current, lowest, Outcome.LIMIT_REACHED)
