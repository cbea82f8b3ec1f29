"""A hook that is called only for topics with certain fields has no answer for other topics."""

from collections.abc import Iterable, Mapping

import pytest
from tests.builtin.lab import DEFAULTS

from sluicegate.builtin.asking import fields_of
from sluicegate.config.fields import PolicyFields
from sluicegate.engine.state import TopicState
from sluicegate.model import EffectivePolicies, PolicyValue, TopicName
from sluicegate.runtime.plugins import Implementation, plugins_of
from sluicegate.testing import ManualContext

TOPIC = TopicName("/default/orders", "default")
HOOKS = ("sluicegate_policy_checks", "sluicegate_delay_rule")
PLUGINS = plugins_of()
SETTINGS = PolicyFields.of(PLUGINS.policy_models).settings
MARKED = [found for hook in HOOKS for found in PLUGINS.implementations(hook) if found.fields]


def has_answer(found: Implementation, values: Mapping[str, PolicyValue], observe_only: bool) -> bool:
    policies = EffectivePolicies(TOPIC.full, 1, values, {}, observe_only)
    state = TopicState(TOPIC, 1)
    state.context = ManualContext(values=dict(values))
    return bool(found(topic=TOPIC, policies=policies, context=state))


def all_sevens(names: Iterable[str]) -> dict[str, PolicyValue]:
    return {**DEFAULTS, **dict.fromkeys(names, 7)}


@pytest.mark.parametrize("observe_only", [False, True])
def test_without_its_fields_a_hook_has_no_answer_whatever_else_is_set(observe_only: bool) -> None:
    assert len(MARKED) == 6
    for found in MARKED:
        others = [name for name in SETTINGS if name not in found.fields]
        for names in ((), others, *((name,) for name in others)):
            assert not has_answer(found, all_sevens(names), observe_only), (found.plugin, names)


def test_each_of_its_fields_alone_gives_an_answer() -> None:
    for found in MARKED:
        for name in found.fields:
            assert has_answer(found, all_sevens([name]), False), (found.plugin, name)


def test_a_hook_without_a_mark_is_always_called() -> None:
    def hook() -> None:
        """Not marked."""

    assert fields_of(hook) == frozenset()
