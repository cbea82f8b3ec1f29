"""What is read of a cluster's own limits, from answers that were recorded."""

from http import HTTPStatus
from typing import Any

import pytest
from tests.pulsar.cluster.recorded_api import ANSWERS, CONFIGURATION, recorded_api

from sluicegate.model import Level, PolicyValue
from sluicegate.model.own_limits import OwnSetting, OwnSettings, OwnSettingsError
from sluicegate.net.tls import OwnTlsFiles
from sluicegate_pulsar.cluster import own_settings as room
from sluicegate_pulsar.config import PulsarConfig
from sluicegate_pulsar.plugin import PulsarDriver

T1 = "persistent://public/default/t1"


async def told(url: str | None) -> OwnSettings:
    entry: dict[str, Any] = {"name": "p", "system": "pulsar", "bootstrap": ["b:6650"], "listen": {"port": 1}}
    config = PulsarConfig.model_validate({**entry, "admin": {"url": url}} if url else entry)
    return await PulsarDriver().own_settings(config, OwnTlsFiles(config))


def values(found: OwnSettings, level: Level, name: str = "") -> dict[str, PolicyValue]:
    return {one.field: one.value for one in found.settings if (one.level, one.name) == (level, name)}


@pytest.fixture
async def found() -> OwnSettings:
    with recorded_api(ANSWERS) as (url, _):
        return await told(url)


async def test_the_brokers_configuration(found: OwnSettings) -> None:
    assert found.gaps == ()
    assert values(found, Level.BROKER) == {
        "max_producers_per_topic": 0,
        "max_unacked_messages_per_consumer": 50_000,
        "max_message_size": 5_242_880,
        "max_publish_rate": 0,
        "max_delivery_delay": 86_400_000,
        "delayed_delivery_active": True,
        "": 0,
    }
    [size] = [one for one in found.settings if one.field == "max_message_size"]
    assert (size.origin, size.text, size.is_bound) == ("broker config maxMessageSize", "5242880", True)
    [alone] = [one for one in found.settings if not one.field and one.level is Level.BROKER]
    assert (alone.origin, alone.text) == ("broker config maxUnackedMessagesPerSubscription", "200000")


async def test_the_policies_of_namespaces_with_the_rates_of_the_own_cluster(found: OwnSettings) -> None:
    assert values(found, Level.NAMESPACE, "public/default") == {
        "max_producers_per_topic": 5,
        "max_consumers_per_topic": 0,
        "max_publish_rate": 10,
        "max_publish_rate_bytes": 0,
        "max_dispatch_rate": 10,
        "max_dispatch_rate_bytes": 2048,
        "delayed_delivery_active": False,
        "delayed_delivery_tick_time": 1000,
        "max_delivery_delay": 0,
        "": 0,
    }


async def test_the_policies_of_topics_with_rates_by_the_second(found: OwnSettings) -> None:
    assert values(found, Level.TOPIC, T1) == {
        "max_producers_per_topic": 7,
        "max_dispatch_rate": 50,
        "max_dispatch_rate_bytes": 1024,
        "delayed_delivery_active": True,
        "delayed_delivery_tick_time": 1000,
        "max_delivery_delay": 5000,
    }
    [rate] = [one for one in of_topic(found) if one.field == "max_dispatch_rate"]
    assert rate.text == "100 in 2 s"
    assert {one.name for one in of_topic(found)} == {T1}


async def test_global_policies_count_where_there_is_no_local_one() -> None:
    of_all = {"maxProducers": 3, "maxConsumers": 4, "delayedDelivery": {"active": False}}
    more = {f"persistent/public/default/t1/{name}?isGlobal=true": value for name, value in of_all.items()}
    with recorded_api({**ANSWERS, **more}) as (url, asked):
        found = await told(url)
    of_t1 = values(found, Level.TOPIC, T1)
    assert (of_t1["max_producers_per_topic"], of_t1["delayed_delivery_active"]) == (7, True), "local ones"
    [consumers] = [one for one in of_topic(found) if one.field == "max_consumers_per_topic"]
    assert (consumers.value, consumers.origin) == (4, "global topic policy maxConsumers")
    assert "persistent/public/default/t1/maxProducers?isGlobal=true" not in asked


def test_rates_of_longer_periods_may_be_fractions() -> None:
    rate = {"dispatchThrottlingRateInMsg": 1, "dispatchThrottlingRateInByte": 100, "ratePeriodInSecond": 3}
    found = room.topic_settings(T1, {"dispatchRate": rate})
    assert [one.value for one in found] == [0.333333333, 33.333333333]


def of_topic(found: OwnSettings) -> list[OwnSetting]:
    return [one for one in found.settings if one.level is Level.TOPIC]


async def test_partitions_and_internal_topics_are_not_asked_about() -> None:
    with recorded_api(ANSWERS) as (url, asked):
        await told(url)
    topics = {path.split("/")[3] for path in asked if path.startswith("persistent/") and path.count("/") > 3}
    assert topics == {"t1", "p1"}


async def test_brokers_without_policies_of_topics_are_not_asked_for_them() -> None:
    configuration = {**CONFIGURATION, "topicLevelPoliciesEnabled": "false"}
    with recorded_api({**ANSWERS, "brokers/configuration/runtime": configuration}) as (url, asked):
        found = await told(url)
    assert not [path for path in asked if path.startswith("persistent/")]
    assert (of_topic(found), found.gaps) == ([], ())


async def test_what_may_not_be_seen_is_a_gap() -> None:
    denied = {
        "namespaces/public/default": HTTPStatus.FORBIDDEN,
        "persistent/public/other/a/maxProducers": HTTPStatus.UNAUTHORIZED,
    }
    more = {
        "namespaces/public": ["public/default", "public/other"],
        "namespaces/public/other": {"max_producers_per_topic": 3},
        "persistent/public/other": ["persistent://public/other/a", "persistent://public/other/b"],
        "persistent/public/other/b/maxProducers": 2,
        "persistent/public/other/partitioned": [],
    }
    with recorded_api({**ANSWERS, **more, **denied}) as (url, _):
        found = await told(url)
    assert [gap.partition(": ")[0] for gap in found.gaps] == [
        "namespace public/default",
        "topic persistent://public/other/a",
    ]
    assert values(found, Level.NAMESPACE, "public/other") == {"max_producers_per_topic": 3}
    of_b = values(found, Level.TOPIC, "persistent://public/other/b")
    assert of_b == {"max_producers_per_topic": 2}


async def test_more_topics_than_there_is_time_for_are_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_TOPICS", 1)
    with recorded_api(ANSWERS) as (url, _):
        found = await told(url)
    assert found.gaps == ("1 topics were not asked about, as that takes too long",)


async def test_an_api_that_is_not_there_or_refuses_is_an_error_with_a_remedy() -> None:
    with pytest.raises(OwnSettingsError) as no_admin:
        await told(None)
    assert "add 'admin:" in no_admin.value.remedy
    with recorded_api({"brokers/configuration/runtime": HTTPStatus.UNAUTHORIZED}) as (url, _):
        with pytest.raises(OwnSettingsError, match="answers 401") as refused:
            await told(url)
        assert "its token" in refused.value.remedy
    with pytest.raises(OwnSettingsError, match=r"127\.0\.0\.1"):
        await told(url)
