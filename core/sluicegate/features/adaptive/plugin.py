"""Adaptive throttling as a plugin. Unless it is enabled, it adds only its policy fields."""

from collections.abc import Sequence

from sluicegate.broker import BrokerContext
from sluicegate.config.models import PolicyModel
from sluicegate.engine.check import Check
from sluicegate.engine.state import TopicState
from sluicegate.engine.task import Task
from sluicegate.features.adaptive.controller import AdaptiveController
from sluicegate.features.adaptive.controller_state import KEY
from sluicegate.features.adaptive.fleet_throttling import FleetThrottling
from sluicegate.features.adaptive.settings import ENABLED, POLICY, AdaptivePolicies
from sluicegate.hooks import hookimpl
from sluicegate.model import EffectivePolicies, TopicName


class AdaptiveThrottling:
    """The plugin of one gateway, with the controllers of its brokers."""

    def __init__(self) -> None:
        self._controllers: dict[str, AdaptiveController] = {}
        self._is_restart_logged = False

    @hookimpl
    def sluicegate_policy_model(self) -> type[PolicyModel]:
        """Add the settings."""
        return AdaptivePolicies

    @hookimpl
    def sluicegate_tasks(self, context: BrokerContext) -> Sequence[Task]:
        """Create the controller of a broker if it is enabled at startup."""
        if not context.policies.flag(ENABLED):
            if context.recall(KEY):  # left from when it was enabled
                context.remember(KEY, "null")
            return []
        controller = self._controllers[context.broker] = AdaptiveController(context)
        if not context.pressure_sources:
            context.log.warning("%s has no pressure source: configure one under `pressure`", POLICY)
        return [Task(POLICY, controller.interval_ms, controller.run, FleetThrottling(context, controller))]

    @hookimpl
    def sluicegate_policy_checks(
        self, topic: TopicName, policies: EffectivePolicies, context: TopicState
    ) -> Sequence[Check]:
        """Add a topic's limiter, which is off at first."""
        broker = context.context
        if broker is None:
            return []
        controller = self._controllers.get(broker.broker)
        if controller is not None:
            return controller.checks(context, policies)
        if policies.flag(ENABLED) and not self._is_restart_logged:
            self._is_restart_logged = True
            broker.log.warning("restart the gateway to apply: %s", ENABLED)
        return []
