"""Adaptive throttling as a plugin; where it is not enabled it adds nothing but its policy fields."""

from collections.abc import Sequence

from sluicegate.config.models import PolicyModel
from sluicegate.engine.check import Check
from sluicegate.engine.state import TopicState
from sluicegate.engine.task import Task
from sluicegate.features.adaptive.controller import AdaptiveController
from sluicegate.features.adaptive.controller_state import KEY
from sluicegate.features.adaptive.settings import ENABLED, POLICY, AdaptivePolicies
from sluicegate.hooks import BrokerContext, hookimpl
from sluicegate.model import EffectivePolicies, TopicName


class AdaptiveThrottling:
    """The plugin of one gateway: it holds state, so it is not shared."""

    def __init__(self) -> None:
        self._controllers: dict[str, AdaptiveController] = {}
        self._told = False

    @hookimpl
    def sluicegate_policy_model(self) -> type[PolicyModel]:
        """Add the settings."""
        return AdaptivePolicies

    @hookimpl
    def sluicegate_tasks(self, context: BrokerContext) -> Sequence[Task]:
        """Start the controller of a broker that has it enabled; others have none until they are restarted."""
        if not context.policies.flag(ENABLED):
            if context.recall(KEY):  # of when it was enabled
                context.remember(KEY, "null")
            return []
        controller = self._controllers[context.broker] = AdaptiveController(context)
        if not context.pressure_sources:
            context.log.warning("%s has no pressure source: name one under `pressure`", POLICY)
        return [Task(POLICY, controller.interval_ms, controller.run)]

    @hookimpl
    def sluicegate_policy_checks(
        self, topic: TopicName, policies: EffectivePolicies, context: TopicState
    ) -> Sequence[Check]:
        """Give a topic its limiter, switched off."""
        broker = context.context
        if broker is None:
            return []
        controller = self._controllers.get(broker.broker)
        if controller is not None:
            return controller.checks(context, policies)
        if policies.flag(ENABLED) and not self._told:
            self._told = True
            broker.log.warning("restart the gateway to bring into force: %s", ENABLED)
        return []
