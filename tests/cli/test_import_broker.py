"""`sluicegate import` of a running broker: what is written, and that it can be used."""

from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import Run as Sluicegate
from tests.pulsar.cluster.recorded_api import ANSWERS, recorded_api

from sluicegate.runtime.plugins import CHOICE


def test_the_result_can_be_used_and_says_where_all_comes_from(sluicegate: Sluicegate, url: str) -> None:
    result = sluicegate("import", "pulsar", "--admin", url, "-o", "new.yaml")
    assert (result.exit_code, result.stderr) == (0, "new.yaml: 18 converted, 2 not\n")
    text = Path("new.yaml").read_text()
    assert sluicegate("check", "new.yaml").exit_code == 0
    made = yaml.safe_load(text)
    assert made["brokers"] == [
        {
            "name": "pulsar",
            "system": "pulsar",
            "bootstrap": ["127.0.0.1:6650"],
            "listen": {"host": "127.0.0.1", "port": 16650},
            "admin": {"url": url},
        }
    ]
    assert made["policies"]["broker"] == {
        "max_unacked_messages_per_consumer": 50_000,
        "max_message_size": "5MiB",
        "max_delivery_delay": "1d",
    }
    [namespace] = made["policies"]["namespaces"]
    assert (namespace["name"], namespace["max_consumers_per_topic"]) == ("public/default", 0)
    assert "      # topic policy dispatchRate.dispatchThrottlingRateInMsg = 100 in 2 s\n" in text
    assert (
        "#   broker config maxUnackedMessagesPerSubscription = 200000:\n#     the gateway limits each" in text
    )
    drift = sluicegate("drift", "-c", "new.yaml")
    assert drift.exit_code == 0
    assert drift.stdout.startswith("broker pulsar (pulsar): 14 equal\n\npolicies ")


def test_the_entry_of_a_file_is_asked_and_repeated_without_its_secrets(
    sluicegate: Sluicegate, url: str
) -> None:
    entry = {
        "name": "main",
        "system": "pulsar",
        "bootstrap": ["b1:6650", "b2:6650"],
        "listen": {"port": 16650},
        "admin": {"url": url, "token": "very-private"},
    }
    Path("gateway.yaml").write_text(yaml.safe_dump({"brokers": [entry]}))
    result = sluicegate("import", "pulsar", "-c", "gateway.yaml", "--broker", "main")
    assert result.exit_code == 0
    assert "very-private" not in result.output
    [made] = yaml.safe_load(result.stdout)["brokers"]
    assert (made["name"], made["bootstrap"]) == ("main", ["b1:6650", "b2:6650"])
    assert "`tls`, logins and all else of the entry are in gateway.yaml." in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pulsar", "--bootstrap", "b:6650"], "expected --admin URL"),
        (["pulsar", "--admin", "nowhere"], "String should match"),
        (["kafka", "--bootstrap", "nowhere"], "is not an address"),
        (["kafka", "--bootstrap", "b:9092", "-c", "gateway.yaml"], "not both"),
        (["kafka", "-c", "gateway.yaml"], "no broker of kind 'kafka'"),
        (["pulsar", "-c", "gateway.yaml", "--broker", "other"], "unknown broker 'other'"),
        (["pulsar", "-c", "missing.yaml"], "missing.yaml"),
        (["pulsar", "--admin", "http://127.0.0.1:1"], "cannot be asked: http://127.0.0.1:1"),
    ],
)
def test_what_cannot_be_asked_is_said_with_code_2(
    sluicegate: Sluicegate, arguments: list[str], said: str
) -> None:
    entry = "{name: main, system: pulsar, bootstrap: ['b:1'], listen: {port: 2}}"
    Path("gateway.yaml").write_text(f"brokers: [{entry}]\n")
    result = sluicegate("import", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_a_file_that_exists_is_not_overwritten(sluicegate: Sluicegate, url: str) -> None:
    Path("new.yaml").write_text("mine")
    result = sluicegate("import", "pulsar", "--admin", url, "-o", "new.yaml")
    assert (result.exit_code, Path("new.yaml").read_text()) == (2, "mine")
    assert "cannot write 'new.yaml'" in result.stderr


def test_names_and_values_that_no_policy_takes_are_listed(sluicegate: Sluicegate) -> None:
    names = [
        "persistent://public/default/a b",
        "persistent://public/default/all*",
        "persistent://public/default/c",
    ]
    answers = {
        **ANSWERS,
        "persistent/public/default": names,
        **{f"persistent/public/default/{name.rpartition('/')[2]}/maxProducers": 2**40 for name in names},
    }
    with recorded_api(answers) as (url, _):
        result = sluicegate("import", "pulsar", "--admin", url)
    assert result.exit_code == 0
    assert result.stdout.count("the name cannot stand in a policy") == 2
    assert "is too large" in result.stdout
    assert "topics:" not in result.stdout


def test_files_can_be_imported_without_plugins(
    sluicegate: Sluicegate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHOICE, "missing")
    listed = sluicegate("import", "--help")
    assert listed.exit_code == 0
    assert "strimzi" in listed.stdout
    assert "warning: SLUICEGATE_LOAD_PLUGINS names 'missing'" in listed.stderr
    assert sluicegate("import", "strimzi", "--help").exit_code == 0
