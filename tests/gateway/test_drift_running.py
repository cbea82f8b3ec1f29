"""`sluicegate drift` compares brokers with the policies of the gateway that runs with the file."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.gateway.lab import closed_port
from tests.gateway.running import Gateway
from tests.pulsar.cluster.recorded_api import ANSWERS, recorded_api

from sluicegate.cli import main
from sluicegate.runtime.plugins import CHOICE

T1 = "persistent://public/default/t1"
FILE = """\
brokers:
  - name: main
    system: pulsar
    bootstrap: ["127.0.0.1:{nowhere}"]
    listen: {{port: {port}}}
    admin: {{url: "{url}"}}
    drift_interval: 0
state_dir: {state}
store: "memory:"
admin: {{port: 0}}
policies:
  broker: {{max_message_size: 1MiB}}
  topics: [{{name: "{topic}", max_producers_per_topic: 7}}]
"""


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    monkeypatch.setenv(CHOICE, "pulsar")
    with recorded_api(ANSWERS) as (url, _):
        gateway = Gateway(tmp_path, closed_port(), closed_port())
        gateway.environ = {CHOICE: "pulsar"}
        gateway.path.write_text(
            FILE.format(nowhere=gateway.upstream, port=gateway.port, url=url, state=tmp_path, topic=T1)
        )
        gateway.start()
        yield gateway
        gateway.stop()


def sluicegate(gateway: Gateway, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "-c", str(gateway.path)], catch_exceptions=False)


def producers(told: Result) -> tuple[str, str, str]:
    """Kind, value and place of the topic's limit of producers."""
    [broker] = json.loads(told.stdout)["brokers"]
    [found] = [
        each
        for each in broker["differences"]
        if (each["name"], each["policy"]) == (T1, "max_producers_per_topic")
    ]
    return found["kind"], found["gateway"]["text"], found["gateway"]["where"]


def test_policies_of_the_running_gateway_are_compared(gateway: Gateway) -> None:
    changed = sluicegate(gateway, "policies", "set", "topic", T1, "max_producers_per_topic=8")
    assert changed.exit_code == 0, changed.output
    told = sluicegate(gateway, "drift", "--json")
    assert producers(told) == ("stricter", "8", "store version 1"), "its store is in its memory alone"
    version = json.loads(sluicegate(gateway, "policies", "get", "--json").stdout)["version"]
    assert json.loads(told.stdout)["policies"] == {"from": "gateway", "version": version}
    line = f"policies {version}, running gateway (process {gateway.process.pid})"
    assert sluicegate(gateway, "drift").stdout.splitlines()[-1] == line


def test_without_a_gateway_they_are_those_of_file_and_store(gateway: Gateway) -> None:
    sluicegate(gateway, "policies", "set", "topic", T1, "max_producers_per_topic=8")
    gateway.stop()
    told = sluicegate(gateway, "drift", "--json")
    assert producers(told) == ("equal", "7", "gateway.yaml:13")
    assert json.loads(told.stdout)["policies"]["from"] == "file"
    text = " ".join(sluicegate(gateway, "drift").stdout.split())
    assert text.endswith("and its store: no gateway on this host runs with this file")
