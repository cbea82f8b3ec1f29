"""What the policy file may say, and that every plugin stands on the public hooks."""

import pluggy
import pytest
from pydantic import ValidationError

from sluicegate import hooks
from sluicegate.config import PolicyModel
from sluicegate.config.descriptions import descriptions
from sluicegate.config.fields import PolicyFields
from sluicegate.engine.state import TopicState
from sluicegate.features.adaptive.settings import NAMES
from sluicegate.model import EffectivePolicies, TopicName
from sluicegate.policies import builtin_plugins
from sluicegate.policies.counts import CountPolicies
from sluicegate.policies.delay import DelayPolicies
from sluicegate.policies.rates import RatePolicies
from sluicegate.policies.size import SizePolicies

FIELDS = {
    "publish_quota",
    "publish_quota_bytes",
    "principal_publish_quota",
    "principal_publish_quota_bytes",
    "consume_quota",
    "consume_quota_bytes",
    "principal_consume_quota",
    "principal_consume_quota_bytes",
    "read_only",
    "write_only",
    "client_id_pattern",
    "allow_topic_creation",
    "max_partitions",
    "required_headers",
    "forbidden_headers",
    "remove_headers",
    "allowed_content",
    "max_producers_per_topic",
    "max_subscriptions_per_topic",
    "max_consumers_per_topic",
    "max_consumers_per_subscription",
    "max_publish_rate",
    "max_publish_rate_bytes",
    "max_dispatch_rate",
    "max_dispatch_rate_bytes",
    "max_subscription_dispatch_rate",
    "max_subscription_dispatch_rate_bytes",
    "max_message_size",
    "inspect",
    "burst_seconds",
    "max_unacked_messages_per_consumer",
    "connection_rate_limit",
    "fixed_delivery_delay",
    "max_delivery_delay",
    "delay_header",
    "delayed_delivery_active",
    "delayed_delivery_tick_time",
    "delay_clock",
    "max_timestamp_ahead",
    "max_timestamp_behind",
    "storage_quota",
    "storage_hard_consumed_bytes",
    "storage_hard_min_free_bytes",
    "storage_hard_min_free_ratio",
    "storage_soft_consumed_bytes",
    "storage_soft_min_free_bytes",
    "storage_soft_min_free_ratio",
    "storage_stale_after",
    *NAMES,
}


@pytest.fixture
def plugins() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    for plugin in builtin_plugins():
        manager.register(plugin)
    manager.check_pending()
    return manager


@pytest.fixture
def models(plugins: pluggy.PluginManager) -> list[type[PolicyModel]]:
    found: list[type[PolicyModel]] = plugins.hook.sluicegate_policy_model()
    return found


@pytest.mark.seed("S1-001", "S1-002", "S1-003", "S1-004", "S1-005", "S1-006", "S1-007", "S1-008", "S1-120")
def test_all_policies_are_fields_unset_by_default_and_documented(models: list[type[PolicyModel]]) -> None:
    fields = {name: field for model in models for name, field in model.model_fields.items()}

    assert fields.keys() == FIELDS
    assert all(field.default is None for field in fields.values())
    assert {name for model in models for name, text in descriptions(model).items() if text} >= FIELDS


@pytest.mark.seed("S1-012")
def test_every_policy_of_a_topic_can_be_read(models: list[type[PolicyModel]]) -> None:
    values = {name: 5 for name in FIELDS if name.startswith("max_")}

    policies = EffectivePolicies("t", 1, values, {})

    assert {name: policies.number(name) for name in values} == values
    assert policies.number("connection_rate_limit") == 0


@pytest.mark.seed("S1-053", "S1-120")
def test_few_fields_have_a_default(models: list[type[PolicyModel]]) -> None:
    defaults = PolicyFields.of(models).defaults

    assert defaults["max_message_size"] == 10_485_760
    assert not defaults.keys() & {"max_producers_per_topic", "max_publish_rate", "fixed_delivery_delay"}


@pytest.mark.parametrize("model", [CountPolicies, RatePolicies, SizePolicies, DelayPolicies])
def test_what_models_say_of_fields_names_fields(model: type[PolicyModel]) -> None:
    named = {*model.on_limit_actions, *model.on_unknown_policies, *model.parameters, *model.broker_only}
    named |= {*model.defaults, *model.aliases.values()}

    assert named <= model.model_fields.keys()


@pytest.mark.seed("S1-005", "S1-011")
def test_the_seeds_names_are_aliases() -> None:
    rates = RatePolicies.model_validate(
        {"max_publish_rate_msg": "500/s", "max_publish_throughput_bytes": "10MiB/s"}
    )
    delay = DelayPolicies.model_validate({"fixedDeliveryDelayInMillis": 3_600_000})

    assert (rates.max_publish_rate, rates.max_publish_rate_bytes) == (500, 10 * 2**20)
    assert delay.fixed_delivery_delay == 3_600_000


@pytest.mark.seed("S1-120")
def test_policies_survive_being_written_and_read() -> None:
    written = CountPolicies(max_producers_per_topic=5, max_consumers_per_topic=0)

    assert CountPolicies.model_validate_json(written.model_dump_json()) == written


@pytest.mark.seed("S1-013", "S1-101")
@pytest.mark.parametrize("value", [-1, True, "many", 2**32, float("inf")])
def test_senseless_limits_are_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        CountPolicies.model_validate({"max_producers_per_topic": value})
    with pytest.raises(ValidationError):
        RatePolicies.model_validate({"max_publish_rate": value})


def test_a_rate_may_be_a_fraction_and_a_count_not() -> None:
    assert RatePolicies.model_validate({"max_publish_rate": 1.5}).max_publish_rate == 1.5
    with pytest.raises(ValidationError):
        CountPolicies.model_validate({"max_producers_per_topic": 1.5})


def test_hooks_answer_through_the_plugin_manager(plugins: pluggy.PluginManager) -> None:
    topic = TopicName("t", "default")
    policies = EffectivePolicies("t", 1, {"max_publish_rate": 5, "fixed_delivery_delay": 9}, {})

    answers = plugins.hook.sluicegate_policy_checks(
        topic=topic, policies=policies, context=TopicState(topic, 0)
    )
    names = sorted(check.policy for checks in answers for check in checks)
    rule = plugins.hook.sluicegate_delay_rule(topic=topic, policies=policies)

    assert names == ["max_message_size", "max_publish_rate", "max_timestamp_ahead"]
    assert rule.fixed_ms == 9
