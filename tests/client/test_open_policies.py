"""The policies of the clients of a process: which of them apply there, and who shares them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest
import yaml

from sluicegate.client.open_policies import OpenPolicies
from sluicegate.model import Action, Operation, OperationKind
from sluicegate.runtime.plugins import CHOICE

STORAGE = {"source": "path", "paths": ["/"]}


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "kafka,pulsar")


def new_file(
    directory: Path, system: str, policies: dict[str, Any], *, modules: Sequence[str] = (), **entry: Any
) -> str:
    broker = {"name": "main", "system": system, "bootstrap": ["127.0.0.1:1"]}
    path = directory / "policies.yaml"
    document = {
        "state_dir": str(directory / "state"),
        "plugins": list(modules),
        "brokers": [{**broker, **entry}],
        "policies": {"broker": policies},
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_policies_that_a_client_cannot_enforce_are_named_once_and_hold_nothing_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policies = {
        "adaptive_publish_throttling_enabled": True,
        "storage_hard_min_free_bytes": "1000GiB",
        "on_unknown": {"storage_quota": "pause"},
        "max_unacked_messages_per_consumer": 10,
        "max_delivery_delay": 0,
        "allow_topic_creation": False,
        "max_partitions": 8,
        "max_publish_rate": 1000,
    }
    opened = OpenPolicies(new_file(tmp_path, "kafka", policies, storage=STORAGE), "kafka")
    again = OpenPolicies(str(tmp_path / "policies.yaml"), "kafka")
    engine = opened.engine
    assert again.engine is engine
    gateway = "only a gateway follows the load and the volumes of its broker"
    creation = "the clients that create topics are not wrapped"
    assert engine.not_enforced == {
        "adaptive_publish_throttling_enabled": gateway,
        "allow_topic_creation": creation,
        "max_partitions": creation,
        "max_unacked_messages_per_consumer": "not applicable to kafka",
        "storage_hard_min_free_bytes": gateway,
    }
    explained = engine.explain("orders.eu")
    assert explained["not_enforced"] == engine.not_enforced
    assert explained["counts"] == "of this process"
    assert explained["policies"]["max_publish_rate"]["value"] == 1000
    assert not list(engine.context.factors)
    with engine.lock:
        assert engine.gate("orders.eu", False, monotonic_ns()).policies.number("max_publish_rate") == 1000
    for each in (opened, again):
        each.close()
    [line] = [each.message for each in caplog.records if "does not enforce" in each.message]
    assert all(field in line for field in engine.not_enforced)


def test_a_policy_of_another_kind_of_broker_applies_there(tmp_path: Path) -> None:
    file = new_file(tmp_path, "pulsar", {"max_unacked_messages_per_consumer": 10, "max_delivery_delay": "1h"})
    opened = OpenPolicies(file, "pulsar")
    assert not opened.engine.not_enforced
    opened.close()


def test_a_broker_of_another_system_is_refused_and_nothing_stays_open(tmp_path: Path) -> None:
    file = new_file(tmp_path, "pulsar", {})
    with pytest.raises(ValueError, match="is a pulsar one, and this client speaks kafka"):
        OpenPolicies(file, "kafka")
    with pytest.raises(KeyError, match="other"):
        OpenPolicies(file, "pulsar", "other")


def test_faults_of_connections_are_left_to_gateways(tmp_path: Path) -> None:
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    faults = {"chaos_kill": "100%", "chaos_corrupt": "100%", "chaos_latency": "1s", "chaos_until": until}
    opened = OpenPolicies(new_file(tmp_path, "kafka", faults, modules=["sluicegate.chaos"]), "kafka")
    engine = opened.engine
    why = "the client's library owns the connection and its responses"
    assert engine.not_enforced == {"chaos_kill": why, "chaos_corrupt": why}
    publish = Operation(OperationKind.PUBLISH, "orders", messages=1, bytes=1, largest=1)
    with engine.lock:
        decision = engine.gate("orders", False, monotonic_ns()).publish(publish, monotonic_ns())
    assert decision is not None
    assert (decision.action, decision.reasons[0].policy) == (Action.DELAY, "chaos_latency")
    opened.close()
