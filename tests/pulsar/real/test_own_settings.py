"""What a real cluster says of its own limits: configuration, policies of namespaces and of topics."""

import json
import os
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pulsar as pulsar_client
import pytest
import yaml
from click.testing import CliRunner, Result
from tests.pulsar.real.conftest import NewNamespace, NewTopic
from tests.pulsar.real.support import tokens
from tests.pulsar.real.support.admin import Admin, policy_path
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.python import connect
from tests.waiting import LONG_S, until

from sluicegate.cli import main
from sluicegate_pulsar.cluster import admin as admin_api
from sluicegate_pulsar.cluster import own_settings

RATE = {"dispatchThrottlingRateInMsg": 100, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 1}
DELAYS = {"active": True, "tickTime": 100, "maxDeliveryDelayInMillis": 5_000}


def sluicegate(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def write(directory: Path, broker: PulsarBroker, policies: dict[str, Any], **admin: str) -> str:
    entry = {
        "name": "p",
        "system": "pulsar",
        "bootstrap": [broker.address],
        "listen": {"port": 45_900},
        "admin": {"url": broker.admin_url, **admin},
    }
    path = directory / "gateway.yaml"
    path.write_text(yaml.safe_dump({"brokers": [entry], "policies": policies}))
    return os.fspath(path)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it takes longer to read all topics that other tests have left."""
    monkeypatch.setattr(own_settings, "_READING_S", LONG_S)
    monkeypatch.setattr(admin_api, "_TIMEOUT_S", LONG_S)


def test_what_is_imported_can_be_used_and_is_no_drift(
    pulsar: PulsarBroker, admin: Admin, new_namespace: NewNamespace, new_topic: NewTopic, tmp_path: Path
) -> None:
    namespace = new_namespace()
    single, parted = new_topic(namespace=namespace), new_topic("parted", 2, namespace)
    admin.set_policy(namespace, "maxProducers", 5)
    admin.set_policy(namespace, "subscriptionDispatchRate", RATE)
    admin.set_policy(single, "maxProducers", 7)
    admin.set_policy(single, "delayedDelivery", DELAYS)
    admin.set_policy(parted, "maxMessageSize", 1000)
    made = tmp_path / "made.yaml"
    result = sluicegate("import", "pulsar", "--admin", pulsar.admin_url, "-o", os.fspath(made))
    assert result.exit_code == 0, result.stderr
    policies = yaml.safe_load(made.read_text())["policies"]
    named = {each.pop("name"): each for each in (*policies["namespaces"], *policies["topics"])}
    assert named[namespace] == {
        "max_producers_per_topic": 5,
        "max_subscription_dispatch_rate": "100/s",
        "max_subscription_dispatch_rate_bytes": 0,
    }
    assert named[single] == {
        "max_producers_per_topic": 7,
        "delayed_delivery_active": True,
        "delayed_delivery_tick_time": "100ms",
        "max_delivery_delay": "5s",
    }
    assert named[parted] == {"max_message_size": "1kB"}
    assert policies["broker"]["max_message_size"] == "5MiB"
    assert sluicegate("check", os.fspath(made)).exit_code == 0
    drift = sluicegate("drift", "-c", os.fspath(made))
    assert (drift.exit_code, "stricter" in drift.stdout) == (0, False), drift.output


def test_policies_above_the_clusters_own_are_drift(
    pulsar: PulsarBroker, admin: Admin, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic("drifted")
    admin.set_policy(topic, "delayedDelivery", DELAYS)
    policies = {
        "broker": {"max_message_size": "5MiB"},
        "topics": [{"name": topic, "fixed_delivery_delay": "9s", "max_message_size": "6MiB"}],
    }
    path = write(tmp_path, pulsar, policies)
    result = sluicegate("drift", "-c", path)
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert f"topic {topic} stricter fixed_delivery_delay 9s 5s" in text
    assert "stricter max_message_size 6MiB 5MiB" in text
    warned = sluicegate("check", "--live", path)
    assert f"fixed_delivery_delay is 9s for topic {topic}, but broker 'p' has 5s" in warned.stderr


def test_global_policies_of_topics_hold_where_there_is_no_local_one(
    pulsar: PulsarBroker, admin: Admin, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic("everywhere")
    path = write(tmp_path, pulsar, {"topics": [{"name": topic, "max_producers_per_topic": 3}]})

    def told() -> tuple[int, str]:
        [broker] = json.loads(sluicegate("drift", "--json", "-c", path).stdout)["brokers"]
        [found] = [each for each in broker["differences"] if each["name"] == topic]
        return found["broker"]["value"], found["broker"]["where"]

    def admits() -> int:
        """How many of three producers the broker admits."""
        with closing(connect(pulsar.service_url)) as client:
            with suppress(pulsar_client.PulsarException):
                for number in range(3):
                    client.create_producer(topic, producer_name=f"p{number}")
                return 3
            return number

    admin.post(policy_path(topic, "maxProducers"), 1, isGlobal="true")
    until(lambda: admits() == 1, "the broker applies the global policy")
    assert told() == (1, "global topic policy maxProducers")
    admin.set_policy(topic, "maxProducers", 2)
    until(lambda: admits() == 2, "and the local one before it")
    assert told() == (2, "topic policy maxProducers")


def test_the_token_of_the_entry_is_used(guarded_pulsar: PulsarBroker, tmp_path: Path) -> None:
    policies = {"broker": {"max_message_size": "5MiB"}}
    refused = sluicegate("drift", "-c", write(tmp_path, guarded_pulsar, policies))
    assert (refused.exit_code, "answers 401" in refused.stdout) == (2, True)
    path = write(tmp_path, guarded_pulsar, policies, token=tokens.token(tokens.SUPERUSER))
    admitted = sluicegate("drift", "-c", path)
    assert (admitted.exit_code, "stricter" in admitted.stdout) == (0, False), admitted.output
