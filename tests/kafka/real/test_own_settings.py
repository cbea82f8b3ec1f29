"""What a real broker says of its own limits: client quotas, configs of topics and of brokers."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.kafka.real.conftest import NewGate, NewTopic
from tests.kafka.real.support.broker import KafkaBroker, Security
from tests.kafka.real.support.java import run_java_tool

from sluicegate.cli import main
from sluicegate.model import Level
from sluicegate.model.own_limits import OwnSettings, OwnSettingsError
from sluicegate.net.tls import OwnTlsFiles
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


def write(directory: Path, policies: dict[str, Any], entry: KafkaConfig, **more: Any) -> str:
    """A file with one broker, and its path."""
    bootstrap = [str(address) for address in entry.bootstrap]
    broker = {"name": "k", "system": "kafka", "bootstrap": bootstrap, "listen": {"port": 45_900}, **more}
    path = directory / "gateway.yaml"
    path.write_text(yaml.safe_dump({"brokers": [broker], "policies": policies}))
    return os.fspath(path)


def sluicegate(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def test_what_is_imported_can_be_used_and_is_no_drift(
    kafka: KafkaBroker, new_topic: NewTopic, quotas: None, tmp_path: Path
) -> None:
    topic = new_topic("imported", max_message_bytes="4096")
    made = tmp_path / "made.yaml"
    result = sluicegate("import", "kafka", "--bootstrap", kafka.bootstrap, "-o", os.fspath(made))
    assert result.exit_code == 0, result.stderr
    content = yaml.safe_load(made.read_text())
    assert {"name": topic, "max_message_size": "4KiB"} in content["policies"]["topics"]
    assert content["policies"]["broker"]["principal_publish_quota_bytes"] == "2KiB/s"
    assert content["brokers"][0]["quotas"] == [{"principal": "User:alice", "bytes": "1MiB/s"}]
    assert sluicegate("check", os.fspath(made)).exit_code == 0
    drift = sluicegate("drift", "-c", os.fspath(made))
    assert (drift.exit_code, "stricter" in drift.stdout) == (0, False), drift.output
    assert "but broker" not in sluicegate("check", "--live", os.fspath(made)).stderr


def test_a_policy_above_the_brokers_limit_is_drift(
    kafka: KafkaBroker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic("drifted", max_message_bytes="4096")
    policies = {
        "broker": {"max_message_size": "1MB"},
        "topics": [
            {"name": topic, "max_message_size": "8KiB"},
            {"name": "other-*", "max_message_size": "2MiB"},
        ],
    }
    path = write(tmp_path, policies, entry(kafka.bootstrap))
    result = sluicegate("drift", "-c", path, "--json")
    assert result.exit_code == 1
    [broker] = json.loads(result.stdout)["brokers"]
    stricter = [each for each in broker["differences"] if each["kind"] == "stricter"]
    found = {each["name"]: (each["gateway"]["text"], each["broker"]["text"]) for each in stricter}
    assert found[topic] == ("8KiB", "4KiB")
    assert found["other-*"] == ("2MiB", "1048588B")
    assert "" not in found
    warned = sluicegate("check", "--live", path)
    assert f"max_message_size is 8KiB for topic {topic}, but broker 'k' has 4KiB" in warned.stderr


def test_the_login_and_the_tls_of_the_entry_are_used(
    kafka: KafkaBroker, security: Security, tmp_path: Path
) -> None:
    upstream = entry(f"127.0.0.1:{kafka.ports.sasl_tls}")
    tls = {"broker": {"ca": os.fspath(security.authority.certificate)}}
    identity = {"username": "alice", "password": security.users["alice"]}
    path = write(tmp_path, {"broker": {"max_message_size": "1MB"}}, upstream, tls=tls, identity=identity)
    result = sluicegate("import", "kafka", "-c", path)
    assert result.exit_code == 0, result.stderr
    assert "config message.max.bytes of broker 1 = 1048588" in result.stdout
    assert security.users["alice"] not in result.output
    wrong = {**identity, "password": "wrong"}
    path = write(tmp_path, {}, upstream, tls=tls, identity=wrong)
    refused = sluicegate("drift", "-c", path)
    assert (refused.exit_code, "wrong" in refused.output) == (2, False)
    assert "cannot be asked" in refused.stdout


@pytest.mark.slow
@pytest.mark.longer
def test_a_gateway_publishes_how_many_limits_differ(new_gate: NewGate, new_topic: NewTopic) -> None:
    topic = new_topic("watched", max_message_bytes="4096")
    gate = new_gate({"topics": [{"name": topic, "max_message_size": "8KiB"}]})
    # Of the topic, and of all others: the gateway's default is above the broker's.
    gate.eventually(lambda: gate.metric("sluicegate_drift", kind="stricter") >= 2, "the limits are compared")
