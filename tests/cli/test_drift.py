"""`sluicegate drift` and `check --live`, at an admin API that answers as Pulsar did."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run as Sluicegate
from tests.output import HOSTILE
from tests.pulsar.cluster.recorded_api import ANSWERS, recorded_api

from sluicegate.model import visible

T1 = "persistent://public/default/t1"
FILE = """\
brokers:
  - name: main
    system: pulsar
    bootstrap: ["127.0.0.1:6650"]
    listen: {{port: 16650}}
    admin: {{url: "{url}"}}
store: "memory:"
policies:
  broker:
    max_message_size: 1MiB
    max_producers_per_topic: 10
  topics:
    - name: {topic}
      fixed_delivery_delay: 9s
      delayed_delivery_active: true
      max_producers_per_topic: 7
"""


def write(url: str, topic: str = T1, more: str = "") -> None:
    Path("gateway.yaml").write_text(FILE.format(url=url, topic=topic) + more)


def test_differences_are_in_a_table_with_value_place_and_remedy(sluicegate: Sluicegate, url: str) -> None:
    write(url)
    result = sluicegate("drift")
    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert lines[0].startswith("broker main (pulsar): 2 stricter, ")
    assert max(map(len, lines)) < 80
    text = " ".join(result.stdout.split())
    assert (
        "namespace public/default stricter max_producers_per_topic 10 5 "
        "gateway: gateway.yaml:11; broker: namespace policy max_producers_per_topic "
        "set max_producers_per_topic to 5 or less in the gateway, or raise the broker's limit"
    ) in text
    assert f"topic {T1} stricter fixed_delivery_delay 9s 5s gateway: gateway.yaml:14;" in text
    assert "looser max_message_size 1MiB 5MiB gateway: gateway.yaml:10;" in text
    assert "unset max_unacked_messages_per_consumer unset 50000 gateway: nowhere;" in text
    assert "equal" not in text.partition("policy")[2]
    assert "equal max_producers_per_topic 7 7" in " ".join(sluicegate("drift", "--all").stdout.split())


def test_json_has_every_difference(sluicegate: Sluicegate, url: str) -> None:
    write(url)
    result = sluicegate("drift", "--json", "--broker", "main")
    [broker] = json.loads(result.stdout)["brokers"]
    assert (result.exit_code, broker["broker"], broker["error"], broker["not_read"]) == (1, "main", None, [])
    [delay] = [each for each in broker["differences"] if each["policy"] == "fixed_delivery_delay"]
    assert delay == {
        "kind": "stricter",
        "level": "topic",
        "name": T1,
        "principal": None,
        "policy": "fixed_delivery_delay",
        "gateway": {"value": 9000, "text": "9s", "where": "gateway.yaml:14"},
        "broker": {
            "value": 5000,
            "text": "5s",
            "where": "topic policy delayedDelivery.maxDeliveryDelayInMillis",
            "written": "5000",
            "enforced": True,
        },
        "remedy": "set fixed_delivery_delay to 5s or less in the gateway, or raise the broker's limit",
    }
    assert {each["kind"] for each in broker["differences"]} == {"stricter", "looser", "unset", "equal"}


def test_a_broker_that_cannot_be_asked_is_neither_good_nor_bad(sluicegate: Sluicegate) -> None:
    write("http://127.0.0.1:1")
    result = sluicegate("drift")
    assert result.exit_code == 2
    text = " ".join(result.stdout.split())
    assert text.startswith("broker main (pulsar): cannot be asked: http://127.0.0.1:1/admin/v2/")
    assert "check `admin` of the entry" in text
    [broker] = json.loads(sluicegate("drift", "--json").stdout)["brokers"]
    assert broker["error"]["problem"].startswith("http://127.0.0.1:1/")


@pytest.mark.parametrize(
    ("text", "arguments"),
    [("brokers: []\n", []), (None, []), (FILE.format(url="http://h:1", topic="x"), ["--broker", "other"])],
)
def test_a_file_or_a_broker_that_is_not_there_is_not_told(
    sluicegate: Sluicegate, text: str | None, arguments: list[str]
) -> None:
    if text is not None:
        Path("gateway.yaml").write_text(text)
    assert sluicegate("drift", *arguments).exit_code == 2


def test_what_may_not_be_seen_is_named(sluicegate: Sluicegate) -> None:
    policies: dict[str, Any] = {**ANSWERS, "namespaces/public/default": b"no JSON"}
    with recorded_api(policies) as (url, _):
        head = FILE.format(url=url, topic=T1).partition("policies:")[0]
        Path("gateway.yaml").write_text(f"{head}policies: {{broker: {{max_message_size: 1MiB}}}}\n")
        result = sluicegate("drift")
    assert result.exit_code == 2
    assert "not read: namespace public/default: " in " ".join(result.stdout.split())


def test_hostile_names_of_the_broker_reach_no_terminal(sluicegate: Sluicegate) -> None:
    hostile = HOSTILE.replace("\ud800", "").replace("/", "")
    names = [f"persistent://public/default/{hostile}"]
    answers = {
        **ANSWERS,
        "persistent/public/default": names,
        f"persistent/public/default/{hostile}/maxProducers": 3,
    }
    with recorded_api(answers) as (url, _):
        write(url)
        results = [
            sluicegate("drift"),
            sluicegate("drift", "--json"),
            sluicegate("import", "pulsar"),
            sluicegate("check", "--live", "gateway.yaml"),
        ]
    for result in results:
        for text in (result.stdout, result.stderr):
            assert visible(text, keep="\n") == text
    assert visible(hostile)[:8] in results[0].stdout
    assert max(map(len, results[0].stdout.splitlines())) < 80


def test_check_live_warns_at_the_line_of_the_policy(sluicegate: Sluicegate, url: str) -> None:
    write(url)
    assert sluicegate("check", "gateway.yaml").stderr == ""
    result = sluicegate("check", "--live", "gateway.yaml")
    assert result.exit_code == 0
    assert result.stdout == "gateway.yaml: ok, broker main (pulsar); 5 policy settings in 2 places\n"
    assert "  --> gateway.yaml:11:30  (policies.broker.max_producers_per_topic)" in result.stderr
    assert f"fixed_delivery_delay is 9s for topic {T1}, but broker 'main' has 5s" in result.stderr
    assert result.stderr.count("warning[config]") == 2


def test_check_live_warns_of_a_broker_that_cannot_be_asked(sluicegate: Sluicegate) -> None:
    write("http://127.0.0.1:1")
    result = sluicegate("check", "--live", "gateway.yaml", "--json")
    [finding] = json.loads(result.stdout)["findings"]
    assert (result.exit_code, finding["severity"], finding["line"]) == (0, "warning", 2)
    assert "cannot be asked for its own limits" in finding["message"]
