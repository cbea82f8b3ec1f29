"""What a real broker says of its own limits: client quotas, configs of topics and of brokers."""

from collections.abc import Iterator

import pytest
from tests.kafka.real.conftest import NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.java import run_java_tool

from sluicegate.model import Level
from sluicegate.net.tls import OwnTlsFiles
from sluicegate.own_settings import OwnSettings, OwnSettingsError
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.plugin import KafkaDriver


def entry(bootstrap: str, **more: object) -> KafkaConfig:
    return KafkaConfig.model_validate(
        {"name": "k", "system": "kafka", "bootstrap": [bootstrap], "listen": {"port": 45_900}, **more}
    )


async def told(config: KafkaConfig) -> OwnSettings:
    return await KafkaDriver().own_settings(config, OwnTlsFiles(config))


def quota(kafka: KafkaBroker, change: str, *entity: str) -> None:
    at = ("--bootstrap-server", kafka.bootstrap)
    run_java_tool("ConfigCommand", *at, "--alter", *change.split(" "), *entity)


@pytest.fixture
def quotas(kafka: KafkaBroker) -> Iterator[None]:
    alice, everyone = (
        ("--entity-type", "users", "--entity-name", "alice"),
        ("--entity-type", "users", "--entity-default"),
    )
    quota(kafka, "--add-config producer_byte_rate=1048576,request_percentage=50", *alice)
    quota(kafka, "--add-config producer_byte_rate=2048", *everyone)
    yield
    quota(kafka, "--delete-config producer_byte_rate,request_percentage", *alice)
    quota(kafka, "--delete-config producer_byte_rate", *everyone)


async def test_a_broker_tells_its_quotas_and_configs(
    kafka: KafkaBroker, new_topic: NewTopic, quotas: None
) -> None:
    topic = new_topic("limited", max_message_bytes="4096", retention_ms="60000")
    plain = new_topic("plain")
    found = await told(entry(kafka.bootstrap))
    assert found.gaps == ()
    by_origin = {(one.origin, one.name): one for one in found.settings}
    size = by_origin["topic config max.message.bytes", topic]
    assert (size.level, size.field, size.value, size.text) == (Level.TOPIC, "max_message_size", 4096, "4096")
    kept = by_origin["topic config retention.ms", topic]
    assert (kept.field, kept.text) == ("", "60000")
    assert plain not in {one.name for one in found.settings}
    [broker] = [one for one in found.settings if one.origin.startswith("config message.max.bytes of broker")]
    assert (broker.level, broker.field, broker.value) == (Level.BROKER, "max_message_size", 1_048_588)
    of_alice = by_origin["client quota producer_byte_rate of user alice", ""]
    assert (of_alice.field, of_alice.value) == ("principal_publish_quota_bytes", 1_048_576)
    assert of_alice.principal == "User:alice"
    of_each = by_origin["client quota producer_byte_rate of user <default>", ""]
    assert (of_each.principal, of_each.value) == ("", 2048)
    assert by_origin["client quota request_percentage of user alice", ""].field == ""


async def test_a_broker_that_is_not_there_is_an_error_with_its_address(kafka_libs: None) -> None:
    with pytest.raises(OwnSettingsError, match=r"127\.0\.0\.1:1: "):
        await told(entry("127.0.0.1:1"))
