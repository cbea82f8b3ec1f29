"""Policies that inject faults, for tests of clients: a plugin that is loaded only where the file names it."""

from collections.abc import Callable, Sequence

from sluicegate.chaos.chaos_checks import checks_of
from sluicegate.chaos.chaos_fields import FAULTS, ChaosPolicies
from sluicegate.config import PolicyModel
from sluicegate.config.asking import only_with
from sluicegate.engine.check import Check
from sluicegate.engine.state import TopicState
from sluicegate.hooks import hookimpl
from sluicegate.model import EffectivePolicies, TopicName


@hookimpl
def sluicegate_policy_model() -> type[PolicyModel]:
    """Add the policies."""
    return ChaosPolicies


@hookimpl
@only_with(FAULTS)
def sluicegate_policy_checks(
    topic: TopicName, policies: EffectivePolicies, context: TopicState
) -> Sequence[Check]:
    """Inject faults until `chaos_until`."""
    return checks_of(topic, policies, context)


@hookimpl
def sluicegate_startup(log: Callable[[str], None]) -> None:
    """Say that what clients meet may be meant."""
    log("chaos_* policies inject faults wherever they are set, until their chaos_until")
