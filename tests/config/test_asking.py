"""What is asked only where certain fields are set has no answer where they are not."""

from collections.abc import Iterable, Mapping

import pytest
from tests.policies.lab import DEFAULTS

from sluicegate.config.asking import fields_of
from sluicegate.config.fields import PolicyFields
from sluicegate.config.models import Contradiction, PolicyModel
from sluicegate.engine.state import TopicState
from sluicegate.model import EffectivePolicies, PolicyValue, TopicName
from sluicegate.policies.rates import RatePolicies
from sluicegate.runtime.plugins import Implementation, plugins_of
from sluicegate.testing import ManualContext

TOPIC = TopicName("/default/orders", "default")
HOOKS = ("sluicegate_policy_checks", "sluicegate_delay_rule")
PLUGINS = plugins_of()
SETTINGS = PolicyFields.of(PLUGINS.policy_models).settings
EVERY = [found for hook in HOOKS for found in PLUGINS.implementations(hook)]
MARKED = [(found, found.fields) for found in EVERY if found.fields is not None]
_OTHER = {"allow_topic_creation": False}
"""Values of switches that do nothing when they are on."""


def has_answer(found: Implementation, values: Mapping[str, PolicyValue], observe_only: bool) -> bool:
    policies = EffectivePolicies(TOPIC.full, 1, values, {}, observe_only)
    state = TopicState(TOPIC, 1)
    state.context = ManualContext(values=dict(values))
    return bool(found(topic=TOPIC, policies=policies, context=state))


def all_sevens(names: Iterable[str]) -> dict[str, PolicyValue]:
    values = {name: "observe" if name.startswith("mode.") else _OTHER.get(name, 7) for name in names}
    return {**DEFAULTS, **values}


@pytest.mark.parametrize("observe_only", [False, True])
def test_without_its_fields_a_hook_has_no_answer_whatever_else_is_set(observe_only: bool) -> None:
    assert len(MARKED) == 11
    for found, fields in MARKED:
        others = [name for name in SETTINGS if name not in fields]
        for names in ((), others, *((name,) for name in others)):
            assert not has_answer(found, all_sevens(names), observe_only), (found.plugin, names)


def test_each_of_its_fields_alone_gives_an_answer() -> None:
    for found, fields in MARKED:
        for name in fields:
            assert has_answer(found, all_sevens([name]), False), (found.plugin, name)


def test_without_its_fields_a_model_finds_no_contradiction_whatever_else_is_set() -> None:
    marked = [(model, fields_of(model.contradictions)) for model in PLUGINS.policy_models]
    assert sum(fields is not None for _, fields in marked) == 2
    for model, fields in marked:
        others = [name for name in SETTINGS if name not in (fields or ())]
        for names in ((), others, *((name,) for name in others)):
            assert not fields or not list(model.contradictions(all_sevens(names))), (model, names)


def test_without_a_mark_hooks_and_contradictions_are_always_asked() -> None:
    class Loose(PolicyModel):
        @classmethod
        def contradictions(cls, values: Mapping[str, PolicyValue]) -> Iterable[Contradiction]:
            return [Contradiction("max_publish_rate", str(values["max_publish_rate"]), "another's field")]

    assert fields_of(Loose.contradictions) is None
    found = PolicyFields.of([RatePolicies, Loose]).contradictions({"max_publish_rate": 5})
    assert [each.problem for each in found] == ["5"]
