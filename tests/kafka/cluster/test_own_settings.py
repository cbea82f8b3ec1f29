"""What is made of a cluster's answers about its own limits."""

from typing import Any

import pytest
from aiokafka.errors import TopicAuthorizationFailedError

from sluicegate.model import Level
from sluicegate.model.own_limits import OwnSetting
from sluicegate_kafka.cluster.described_configs import Config, configs_of
from sluicegate_kafka.cluster.own_settings import (
    broker_settings,
    quota_settings,
    topic_settings,
)

LONGEST = str(2**63 - 1)


def brief(settings: Any) -> list[tuple[str, object, str]]:
    return [(one.field, one.value, one.text) for one in settings]


def test_a_topics_own_configs_are_settings_and_inherited_ones_are_not() -> None:
    configs = [
        Config("max.message.bytes", "4096", is_own=True),
        Config("message.timestamp.after.max.ms", "60000", is_own=True),
        Config("message.timestamp.before.max.ms", "60000", is_own=True),
        Config("retention.ms", "-1", is_own=True),
        Config("retention.bytes", "5", is_own=False),
    ]
    found = list(topic_settings({"orders": configs}))
    assert brief(found) == [
        ("max_message_size", 4096, "4096"),
        ("max_timestamp_ahead", 60_000, "60000"),
        ("", 60_000, "60000"),
        ("", 0, "-1"),
    ]
    assert {(one.level, one.name) for one in found} == {(Level.TOPIC, "orders")}
    assert all(one.notes for one in found)


def test_time_stamps_without_a_bound_are_no_setting_of_brokers() -> None:
    after = "log.message.timestamp.after.max.ms"
    assert broker_settings({"1": [Config(after, LONGEST, is_own=False)]}) == []
    [of_topic] = topic_settings({"a": [Config("message.timestamp.after.max.ms", LONGEST, is_own=True)]})
    assert (of_topic.field, of_topic.notes) == ("", ("so long that it limits nothing.",))


def test_of_brokers_that_differ_the_lowest_value_counts() -> None:
    name = "message.max.bytes"
    [found] = broker_settings(
        {"1": [Config(name, "2000", is_own=False)], "2": [Config(name, "1000", is_own=False)]}
    )
    assert (found.value, found.origin) == (1000, "config message.max.bytes of broker 2")


def quotas(entity: dict[str, str | None], values: dict[str, float], nodes: int = 1) -> list[OwnSetting]:
    return list(quota_settings([(entity, values)], nodes))


def test_quotas_of_users_are_those_of_principals_on_all_brokers_together() -> None:
    [of_alice] = quotas({"user": "alice"}, {"producer_byte_rate": 1000.5}, nodes=3)
    assert (of_alice.field, of_alice.value, of_alice.text) == (
        "principal_publish_quota_bytes",
        3001,
        "1000.5",
    )
    assert (of_alice.principal, len(of_alice.notes)) == ("User:alice", 1)
    [of_each] = quotas({"user": None}, {"producer_byte_rate": 1000.0})
    assert (of_each.principal, of_each.origin) == ("", "client quota producer_byte_rate of user <default>")


@pytest.mark.parametrize(
    ("entity", "values", "why"),
    [
        ({"client-id": "app"}, {"producer_byte_rate": 10.0}, "not authenticated"),
        ({"user": "alice", "client-id": None}, {"producer_byte_rate": 10.0}, "not authenticated"),
        ({"user": "alice"}, {"producer_byte_rate": 0.5}, "blocks the user"),
        ({"user": "alice"}, {"consumer_byte_rate": 10.0}, "consumes"),
        ({"user": "alice"}, {"request_percentage": 10.0}, "cannot measure"),
        ({"ip": "10.0.0.1"}, {"connection_creation_rate": 10.0}, "connection_rate_limit"),
        ({"user": "alice"}, {"new_rate": 10.0}, "not a quota that the gateway knows"),
    ],
)
def test_other_quotas_say_why_they_are_not_converted(
    entity: dict[str, str | None], values: dict[str, float], why: str
) -> None:
    [found] = quotas(entity, values)
    assert found.field == ""
    assert why in found.notes[0]


def test_configs_are_read_with_their_source() -> None:
    entries: list[tuple[Any, ...]] = [
        ("max.message.bytes", "9", False, 1, False, []),
        ("retention.ms", None, False, 5, False, []),
    ]
    [(name, found)] = configs_of([(0, None, 2, "orders", entries)])
    assert (name, found) == ("orders", [Config("max.message.bytes", "9", is_own=True)])
    [(_, inherited)] = configs_of([(0, None, 2, "orders", [("max.message.bytes", "9", False, 4, False, [])])])
    assert not inherited[0].is_own


def test_a_refused_resource_is_an_error_with_its_name() -> None:
    with pytest.raises(TopicAuthorizationFailedError, match="orders: no"):
        list(configs_of([(29, "no", 2, "orders", [])]))
