"""How a broker's own limits meet the policies in force, at each level."""

from typing import Any

import pytest

from sluicegate.config.fields import PolicyFields
from sluicegate.engine.hierarchy import Resolver
from sluicegate.features.drift import wording
from sluicegate.features.drift.comparing import Difference, Entry, Kind, compare
from sluicegate.model import Level, PolicyLayer, PolicySet, PolicyValue, Setting, Source, TopicName
from sluicegate.model.own_limits import OwnSetting
from sluicegate.runtime.plugins import plugins_of

FIELDS = PolicyFields.of(plugins_of().policy_models)
BROKER, NAMESPACE, TOPIC = Level
SIZE = "max_message_size"


def own(level: Level, name: str, field: str, value: PolicyValue, **more: Any) -> OwnSetting:
    return OwnSetting(
        level=level, name=name, field=field, value=value, origin=f"own {field}", text=str(value), **more
    )


def layer(level: Level, name: str, source: Source = Source.FILE, /, **values: PolicyValue) -> PolicyLayer:
    where = "store version 7" if source is Source.STORE else "gateway.yaml:12"
    return PolicyLayer(level, name, {key: Setting(value, source, where) for key, value in values.items()})


def name_of(topic: str) -> TopicName:
    return TopicName(topic, topic.partition(".")[0])


def rule_of_names(level: Level, name: str) -> str:
    return "names have no colon" if ":" in name else ""


def differences(
    settings: list[OwnSetting],
    *layers: PolicyLayer,
    quotas: dict[str, tuple[int, int]] | None = None,
    defaults: dict[str, PolicyValue] | None = None,
) -> list[Difference]:
    resolver = Resolver(PolicySet(1, layers), FIELDS.defaults if defaults is None else defaults)
    return compare(settings, resolver, Entry(name_of, rule_of_names, quotas or {}))


def told(found: list[Difference]) -> list[tuple[str, str, str]]:
    return [(each.kind.value, wording.target(each), each.field) for each in found]


def test_limits_are_stricter_looser_or_equal() -> None:
    settings = [
        own(BROKER, "", "max_producers_per_topic", 5),
        own(BROKER, "", "max_consumers_per_topic", 0),
        own(BROKER, "", "max_subscriptions_per_topic", 3),
    ]
    values: dict[str, PolicyValue] = {
        "max_producers_per_topic": 6,
        "max_consumers_per_topic": 7,
        "max_subscriptions_per_topic": 3,
    }
    found = differences(settings, layer(BROKER, "", **values))
    assert told(found) == [
        ("stricter", "broker", "max_producers_per_topic"),
        ("looser", "broker", "max_consumers_per_topic"),
        ("equal", "broker", "max_subscriptions_per_topic"),
    ]
    assert found[0].gateway.location == "gateway.yaml:12"
    assert found[0].broker.location == "own max_producers_per_topic"


def test_nothing_set_here_is_no_promise_but_a_zero_is() -> None:
    settings = [own(BROKER, "", "max_unacked_messages_per_consumer", 50_000)]
    assert told(differences(settings)) == [("unset", "broker", "max_unacked_messages_per_consumer")]
    written = layer(BROKER, "", max_unacked_messages_per_consumer=0)
    assert told(differences(settings, written)) == [
        ("stricter", "broker", "max_unacked_messages_per_consumer")
    ]


def test_a_default_of_the_gateway_is_compared() -> None:
    [found] = differences([own(BROKER, "", SIZE, 1_048_588)])
    assert (found.kind, found.gateway.value, found.gateway.location) == (Kind.STRICTER, 10 << 20, "built in")
    assert wording.gateway_text(found, FIELDS) == "10MiB"
    assert "set max_message_size to 1048588B or less" in wording.remedy(found, FIELDS)


def test_what_neither_limits_is_not_listed() -> None:
    assert differences([own(BROKER, "", "max_producers_per_topic", 0)]) == []


def test_a_topics_policy_meets_the_brokers_limit_for_all_topics() -> None:
    settings = [own(BROKER, "", SIZE, 1000), own(TOPIC, "a.large", SIZE, 9000)]
    layers = [
        layer(BROKER, "", max_message_size=500),
        layer(TOPIC, "a.plain", max_message_size=2000),
        layer(TOPIC, "a.large", max_message_size=2000),
        layer(TOPIC, "b.*", Source.STORE, max_message_size=3000),
    ]
    found = differences(settings, *layers)
    assert told(found) == [
        ("stricter", "topic a.plain", SIZE),
        ("stricter", "topic b.*", SIZE),
        ("looser", "broker", SIZE),
        ("looser", "topic a.large", SIZE),
    ]
    assert found[1].gateway.location == "store version 7"


def test_a_namespaces_limit_meets_what_its_topics_inherit() -> None:
    settings = [own(NAMESPACE, "a", "max_publish_rate", 100), own(TOPIC, "a.x", "max_publish_rate", 300)]
    found = differences(
        settings, layer(BROKER, "", max_publish_rate=200), layer(TOPIC, "a.y", max_publish_rate=150)
    )
    assert told(found) == [
        ("stricter", "namespace a", "max_publish_rate"),
        ("stricter", "topic a.y", "max_publish_rate"),
        ("looser", "topic a.x", "max_publish_rate"),
    ]
    assert found[1].own is settings[0]


def test_a_bound_holds_over_lower_levels() -> None:
    settings = [own(BROKER, "", SIZE, 1000, is_bound=True), own(TOPIC, "a.x", SIZE, 9000)]
    found = differences(settings, layer(TOPIC, "a.x", max_message_size=2000))
    [of_topic] = [each for each in found if each.level is TOPIC]
    assert (of_topic.kind, of_topic.broker.value) == (Kind.STRICTER, 1000)


def test_a_ceiling_of_the_gateway_is_what_is_compared() -> None:
    tightened = PolicyLayer(BROKER, "", {}, {SIZE: Setting(1000, Source.FILE, "gateway.yaml:5")})
    [found] = differences([own(BROKER, "", SIZE, 1000)], tightened)
    assert (found.kind, found.gateway.value) == (Kind.EQUAL, 1000)
    assert found.gateway.location == "broker ceiling gateway.yaml:5"


def test_a_fixed_delay_meets_the_longest_that_the_broker_takes() -> None:
    settings = [
        own(BROKER, "", "max_delivery_delay", 5000),
        own(NAMESPACE, "a", "max_delivery_delay", 0),
    ]
    layers = [
        layer(BROKER, "", max_delivery_delay=5000),
        layer(TOPIC, "a.late", fixed_delivery_delay=9000),
        layer(TOPIC, "b.late", fixed_delivery_delay=9000),
        layer(TOPIC, "b.soon", fixed_delivery_delay=4000),
    ]
    found = differences(settings, *layers)
    assert [each for each in told(found) if each[0] == "stricter"] == [
        ("stricter", "topic b.late", "fixed_delivery_delay")
    ]
    assert wording.broker_text(found[0], FIELDS) == "5s"
    assert "set fixed_delivery_delay to 5s or less" in wording.remedy(found[0], FIELDS)


@pytest.mark.parametrize(
    ("here", "kind"), [(None, Kind.STRICTER), (True, Kind.STRICTER), (False, Kind.EQUAL)]
)
def test_a_broker_without_delayed_delivery_meets_fixed_delays_only(here: bool | None, kind: Kind) -> None:
    settings = [own(BROKER, "", "delayed_delivery_active", value=False)]
    more: dict[str, PolicyValue] = {} if here is None else {"delayed_delivery_active": here}
    assert differences(settings, layer(TOPIC, "a.x", **more)) == []
    [found] = differences(settings, layer(TOPIC, "a.x", fixed_delivery_delay=1000, **more))
    assert (found.kind, found.name, found.field) == (kind, "a.x", "delayed_delivery_active")


def test_time_stamps_ahead_are_compared_where_there_is_a_fixed_delay() -> None:
    settings = [own(BROKER, "", "max_timestamp_ahead", 1000)]
    found = differences(settings, layer(TOPIC, "a.x", fixed_delivery_delay=1000))
    assert told(found) == [("stricter", "topic a.x", "max_timestamp_ahead")]


def test_what_the_broker_has_but_does_not_do_is_no_limit() -> None:
    settings = [own(NAMESPACE, "a", "max_publish_rate", 5, is_enforced=False)]
    assert differences(settings) == []
    [found] = differences(settings, layer(NAMESPACE, "a", max_publish_rate=5))
    assert found.kind is Kind.LOOSER
    assert "does not act on it" in wording.remedy(found, FIELDS)


def test_quotas_of_principals_meet_their_entry_or_the_quota_of_each() -> None:
    field = "principal_publish_quota_bytes"
    settings = [
        own(BROKER, "", field, 1000, principal="User:alice"),
        own(BROKER, "", field, 1000, principal="User:bob"),
        own(BROKER, "", field, 2000),
    ]
    found = differences(
        settings,
        layer(BROKER, "", principal_publish_quota_bytes=2000),
        quotas={"User:alice": (0, 500)},
    )
    assert told(found) == [
        ("stricter", "principal User:bob", field),
        ("looser", "principal User:alice", field),
        ("equal", "broker", field),
    ]
    assert found[1].gateway.location == "`quotas` of the broker's entry"


def test_settings_without_a_policy_are_left_out() -> None:
    assert differences([own(TOPIC, "a.x", "", 0, notes=("why",))]) == []


def test_policies_for_other_brokers_of_the_file_are_left_out() -> None:
    elsewhere = layer(TOPIC, "persistent://a/b/*", max_message_size=9000)
    assert told(differences([own(BROKER, "", SIZE, 20 << 20)], elsewhere)) == [("looser", "broker", SIZE)]
