"""The fields of all plugins together."""

from typing import ClassVar

import pytest
from pydantic import ValidationError

from sluicegate.config import Count, PolicyModel
from sluicegate.config.fields import PolicyFields
from sluicegate.model import EffectivePolicies, PolicyValue
from sluicegate.policies import builtin_plugins


class One(PolicyModel):
    aliases: ClassVar = {"old_name": "max_things"}
    on_limit_actions: ClassVar = {"max_things": ("delay", "reject")}

    max_things: Count | None = None


class Again(PolicyModel):
    max_things: Count | None = None


class Clash(PolicyModel):
    old_name: Count | None = None


def builtin_fields() -> PolicyFields:
    return PolicyFields.of(
        plugin.sluicegate_policy_model()
        for plugin in builtin_plugins()
        if hasattr(plugin, "sluicegate_policy_model")
    )


def test_two_plugins_cannot_declare_one_field() -> None:
    with pytest.raises(
        ValueError, match="policy field 'max_things' is declared twice, the second time by Again"
    ):
        PolicyFields.of([One, Again])
    with pytest.raises(ValueError, match="policy aliases must not also be field names: old_name"):
        PolicyFields.of([One, Clash])


@pytest.mark.seed("S1-013")
def test_single_settings_are_checked_like_the_file() -> None:
    fields = PolicyFields.of([One])
    assert fields.parse("max_things", "5") == 5
    assert fields.parse("old_name", 5) == 5
    assert fields.parse("ceiling.max_things", 5) == 5
    assert fields.parse("on_limit.max_things", "reject") == "reject"
    assert fields.parse("mode.max_things", "canary 5%") == "canary 5% of principals"
    for name, value in (
        ("max_things", -1),
        ("max_things", None),
        ("ceiling.max_things", 0),
        ("on_limit.max_things", "drop"),
        ("mode.max_things", "yes"),
    ):
        with pytest.raises(ValidationError):
            fields.parse(name, value)
    for name in ("max_nothing", "on_limit.max_nothing", "on_unknown.max_things", "ceiling.", "a.b.c"):
        with pytest.raises(KeyError):
            fields.parse(name, 1)


def test_a_model_alone_takes_aliases_too() -> None:
    assert One.model_validate({"old_name": 3}) == One(max_things=3)
    with pytest.raises(ValidationError, match="are the same field"):
        One.model_validate({"old_name": 3, "max_things": 3})


def test_values_are_written_for_people() -> None:
    fields = builtin_fields()
    assert fields.text("max_message_size", 10_485_760) == "10MiB"
    assert fields.text("max_publish_rate", 0) == "unlimited"
    assert fields.text("fixed_delivery_delay", 0) == "none"
    assert fields.text("fixed_delivery_delay", 1500) == "1500ms"
    assert fields.text("mode.max_publish_rate", "observe") == "observe"
    assert fields.text("delay_clock", "publish_time") == "publish_time"


@pytest.mark.seed("S1-120", "S1-053")
def test_the_products_policies_are_unset_by_default_but_the_size() -> None:
    fields = builtin_fields()
    level = fields.level_model().model_validate({})
    assert {value for _, value in level if value is not None} == {()}
    assert fields.defaults["max_message_size"] == 10_485_760


@pytest.mark.seed("S1-120")
def test_policies_survive_being_written_and_read() -> None:
    level = builtin_fields().level_model()
    given = level.model_validate(
        {"max_publish_rate": "10k/s", "max_message_size": "1MiB", "locked": ["burst_seconds"]}
    )
    assert level.model_validate_json(given.model_dump_json()) == given


@pytest.mark.seed("S1-012")
@pytest.mark.parametrize(
    "name",
    [
        "max_producers_per_topic",
        "max_subscriptions_per_topic",
        "max_consumers_per_topic",
        "max_consumers_per_subscription",
        "max_publish_rate",
        "max_dispatch_rate",
        "max_subscription_dispatch_rate",
        "max_message_size",
    ],
)
def test_each_of_the_eight_policies_can_be_set_and_read(name: str) -> None:
    fields = builtin_fields()
    assert name in fields.policies
    values: dict[str, PolicyValue] = {name: fields.parse(name, 7)}
    assert EffectivePolicies("t", 1, values, {}).number(name) == 7
    assert EffectivePolicies("t", 1, {}, {}).number(name) == 0
