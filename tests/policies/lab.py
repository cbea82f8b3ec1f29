"""A topic under the product's own policies, with a clock that only moves when told to."""

from collections.abc import Mapping
from typing import Any

from tests.engine.lab import KeepingSink

from sluicegate.config.fields import PolicyFields
from sluicegate.engine.check import Check
from sluicegate.engine.compiling import compile_gate
from sluicegate.engine.gate import Gate, GateFaults
from sluicegate.engine.hierarchy import Resolver
from sluicegate.engine.state import TopicState
from sluicegate.model import (
    Action,
    Decision,
    Level,
    Operation,
    OperationKind,
    Outcome,
    PolicyLayer,
    PolicySet,
    PolicyValue,
    Setting,
    Source,
    TopicName,
)
from sluicegate.policies import builtin_plugins
from sluicegate.testing import ManualContext, plugin_manager

SECOND_NS = 1_000_000_000
MS = 1_000_000
DEFAULTS = PolicyFields.of(plugin_manager(()).hook.sluicegate_policy_model()).defaults


class PolicyLab:
    """One broker's plugins, and gates for any topics of it."""

    def __init__(self) -> None:
        self.plugins: list[Any] = builtin_plugins()
        self.sink = KeepingSink()
        self.faults = GateFaults()
        self.states: dict[str, TopicState] = {}
        self.context: ManualContext | None = None
        self.version = 1

    def gate(
        self,
        values: Mapping[str, PolicyValue],
        *,
        topic: str = "/default/orders",
        namespace: str = "default",
        exempt: bool = False,
        observe_only: bool = False,
        now_ns: int = 0,
    ) -> Gate:
        """Compile a topic's gate anew; its state stays."""
        name = TopicName(topic, namespace)
        settings = {field: Setting(value, Source.FILE) for field, value in values.items()}
        layers = (PolicyLayer(Level.TOPIC, topic, settings),)
        policy_set = PolicySet(self.version, layers, observe_only=observe_only)
        policies = Resolver(policy_set, DEFAULTS).resolve(name)
        state = self.states.setdefault(topic, TopicState(name, now_ns))
        state.now_ns = now_ns
        state.context = self.context
        checks: list[Check] = []
        delay = None
        for plugin in self.plugins:
            if hasattr(plugin, "sluicegate_policy_checks"):
                checks.extend(plugin.sluicegate_policy_checks(name, policies, state))
            if hasattr(plugin, "sluicegate_delay_rule"):
                delay = plugin.sluicegate_delay_rule(name, policies) or delay
        return compile_gate(name, policies, state, checks, delay, self.sink, self.faults, exempt)


def publish(messages: int = 1, nbytes: int = 100, *, largest: int = 0, reliable: bool = True) -> Operation:
    return Operation(
        OperationKind.PUBLISH,
        "/default/orders",
        client="a",
        producer="p",
        messages=messages,
        bytes=nbytes,
        largest=largest or nbytes,
        reliable=reliable,
    )


def dispatch(
    messages: int = 1, nbytes: int = 100, subscription: str = "s", *, reliable: bool = True
) -> Operation:
    return Operation(
        OperationKind.DISPATCH,
        "/default/orders",
        client="a",
        subscription=subscription,
        consumer="c",
        messages=messages,
        bytes=nbytes,
        reliable=reliable,
    )


def attach_producer(producer: str, client: str = "a") -> Operation:
    return Operation(OperationKind.ATTACH_PRODUCER, "/default/orders", client=client, producer=producer)


def create_subscription(subscription: str) -> Operation:
    return Operation(
        OperationKind.CREATE_SUBSCRIPTION, "/default/orders", client="a", subscription=subscription
    )


def attach_consumer(consumer: str, subscription: str = "s", client: str = "a") -> Operation:
    return Operation(
        OperationKind.ATTACH_CONSUMER,
        "/default/orders",
        client=client,
        subscription=subscription,
        consumer=consumer,
    )


def verdict(decision: Decision | None) -> tuple[Action, str, Outcome] | None:
    """Action, policy and outcome of a decision with one reason."""
    if decision is None:
        return None
    (reason,) = decision.reasons
    return (decision.action, reason.policy, reason.outcome)
