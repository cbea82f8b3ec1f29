"""Faults of plugins, which a gateway survives and a test must not; and a plugin that has them on command."""

from dataclasses import replace
from typing import NoReturn

from sluicegate.engine.check import Check
from sluicegate.engine.faults import Fault, GateFaults
from sluicegate.engine.state import TopicState
from sluicegate.hooks import HookManager, hookimpl
from sluicegate.model import Decision, EffectivePolicies, Operation, TopicName


class PluginFaultError(AssertionError):
    """A plugin did what a gateway counts as its fault."""


class BreakablePlugin:
    """A plugin whose checks raise while `error` is set, to see what clients then meet.

    Give it to `make_gate` in place of the plugin, together with `faults=GateFaults()`.

    :param plugin: the module or object whose policy fields and checks it has.
    """

    def __init__(self, plugin: object) -> None:
        self._hooks = HookManager()
        self._hooks.register(plugin)
        self.error: BaseException | None = None
        """What each check raises, instead of what it does; None for nothing."""

    @hookimpl
    def sluicegate_policy_model(self) -> list[type]:
        """The plugin's policy fields."""
        declared = self._hooks.hook.sluicegate_policy_model()
        return [model for each in declared for model in ((each,) if isinstance(each, type) else each)]

    @hookimpl
    def sluicegate_policy_checks(
        self, topic: TopicName, policies: EffectivePolicies, context: TopicState
    ) -> list[Check]:
        """The plugin's checks, each of which can break."""
        given = self._hooks.hook.sluicegate_policy_checks(topic=topic, policies=policies, context=context)
        return [self._breakable(check) for checks in given for check in checks]

    def _breakable(self, check: Check) -> Check:
        def call(op: Operation, now_ns: int) -> Decision | None:
            if self.error is not None:
                raise self.error
            return check.call(op, now_ns)

        return replace(check, call=call)


def failing_faults() -> GateFaults:
    """Faults of gates, the first of which fails the test.

    Where a test is about what a gateway does then, give `build_gate` a `GateFaults()` of your own.
    """
    return GateFaults(_fail)


def _fail(fault: Fault) -> NoReturn:
    policy = f", policy {fault.policy}" if fault.policy else ""
    raise PluginFaultError(f"plugin {fault.plugin}{policy}, topic {fault.topic}: {fault.error}")
