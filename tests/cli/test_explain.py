"""`sluicegate explain`."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result

from sluicegate.decisions.journal import RefusalJournal
from sluicegate.model import Action, Decision, Level, OperationKind, Outcome, Reason
from sluicegate.store import SqliteStore
from sluicegate.testing import build_gate

Run = Callable[..., Result]
NOW_MS = 1_700_000_000_000

TEXT = """\
brokers:
  - name: main
    system: kafka
    bootstrap: ["127.0.0.1:9092"]
    listen: {port: 19092}
state_dir: state
policies:
  broker:
    max_publish_rate: 500/s
    max_publish_rate_bytes: 10MiB/s
    ceiling: {max_publish_rate_bytes: 20MiB/s}
    locked: [max_publish_rate]
  namespaces:
    - {name: orders, max_consumers_per_topic: 0}
  topics:
    - {name: orders.created, max_publish_rate_bytes: 0}
"""


def write_refusal(state_dir: Path) -> None:
    reason = Reason("max_publish_rate", Outcome.LIMIT_REACHED, "too fast", 6, 5, "topic")
    decision = Decision(Action.REJECT, (reason,), policy_version=4, id="k3x9qa-1f")
    journal = RefusalJournal(state_dir, "kafka", "main")
    gate = build_gate({}, now_ns=0)
    client = "app@10.0.0.7:51234"
    journal.record([(10**18, gate, OperationKind.PUBLISH, "User:a", client, "", 1, 100, decision)], 0, 0)
    journal.close()


def table(result: Result) -> dict[str, list[str]]:
    """The table's cells by policy."""
    assert result.exit_code == 0, result.stderr
    rows = [line.split(maxsplit=4) for line in result.stdout.split("\n\n")[1].splitlines()]
    return {row[0]: row[1:] for row in rows[1:]}


@pytest.mark.seed("S1-022", "S1-023", "X-09")
def test_each_field_says_level_source_and_line(run_in: Run) -> None:
    short = run_in(TEXT, "explain", "orders.created")
    assert "max_message_size" not in table(short), "defaults are shown on demand"
    assert "defaults, and what is not set: --all" in short.stdout
    result = run_in(TEXT, "explain", "orders.created", "--all")
    assert result.stdout.startswith("topic orders.created, namespace orders, broker main (kafka)\n")
    cells = table(result)
    assert cells["max_publish_rate"] == ["500/s", "broker", "file", "gateway.yaml:9"]
    assert cells["max_publish_rate_bytes"] == [
        "20MiB/s",
        "topic",
        "file",
        "gateway.yaml:16, tightened by broker ceiling gateway.yaml:11",
    ]
    assert cells["max_consumers_per_topic"] == ["unlimited", "namespace", "file", "gateway.yaml:14"]
    assert cells["max_message_size"] == ["10MiB", "-", "default", "built in"]
    _, _, unset = result.stdout.partition("not set, so without effect: ")
    assert "max_producers_per_topic, " in unset
    assert "each gateway process counts limits on its own" in result.stdout


@pytest.mark.seed("S1-020")
def test_what_the_store_says_overrides_the_file_but_not_what_is_locked(run_in: Run, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "state" / "policies.db")
    store.set(Level.TOPIC, "orders.created", "max_producers_per_topic", 3, "ann")
    store.set(Level.BROKER, "", "max_publish_rate", 9, "ann")
    store.set(Level.TOPIC, "orders.created", "publish_quota", 5, "ann")  # only the broker level has it
    store.close()
    cells = table(run_in(TEXT, "explain", "orders.created"))
    assert "publish_quota" not in cells
    assert cells["max_producers_per_topic"] == ["3", "topic", "store", "store version 1"]
    assert cells["max_publish_rate"] == ["500/s", "broker", "file", "gateway.yaml:9"]


def test_explaining_makes_no_store(run_in: Run, tmp_path: Path) -> None:
    run_in(TEXT, "explain", "orders.created")
    assert not (tmp_path / "state").exists()


def test_a_damaged_store_is_reported(run_in: Run, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "policies.db").write_text("nothing of the kind " * 100)
    result = run_in(TEXT, "explain", "orders.created")
    assert result.exit_code == 1
    assert "is damaged or not such a database" in result.stderr


def test_json_is_for_programs(run_in: Run) -> None:
    found = json.loads(run_in(TEXT, "explain", "orders.created", "--json").stdout)
    assert found["topic"] == "orders.created"
    assert found["policies"]["max_publish_rate"] == {
        "value": 500,
        "text": "500/s",
        "level": "broker",
        "scope": "",
        "source": "file",
        "location": "gateway.yaml:9",
        "ceiling": "",
        "applies": "emulated",
    }


def test_observe_only_is_shown(run_in: Run) -> None:
    text = TEXT.replace("system: kafka", "system: kafka\n    observe_only: true")
    assert "observe only: everything is recorded, nothing is applied" in run_in(text, "explain", "a").stdout


def test_policies_without_effect_on_the_broker_are_reported(run_in: Run) -> None:
    text = TEXT.replace(
        "max_publish_rate: 500/s", "max_publish_rate: 500/s\n    max_unacked_messages_per_consumer: 5"
    )
    cells = table(run_in(text, "explain", "a"))
    assert cells["max_unacked_messages_per_consumer"][3].endswith(
        "not applicable to this broker: does nothing"
    )


def test_one_of_several_brokers_is_chosen(run_in: Run) -> None:
    second = (
        "  - {name: other, system: kafka, bootstrap: ['a:1'], listen: {port: 5}, namespace_separator: ''}\n"
    )
    text = TEXT.replace("state_dir", second + "state_dir")
    refused = run_in(text, "explain", "orders.created")
    assert refused.exit_code == 2
    assert "which broker? expected --broker with one of: main, other" in refused.stderr
    assert "unknown broker 'x'" in run_in(text, "explain", "orders.created", "--broker", "x").stderr
    found = run_in(text, "explain", "orders.created", "--broker", "other")
    assert found.stdout.startswith("topic orders.created, namespace default, broker other (kafka)\n")


def test_a_file_with_mistakes_explains_nothing(run_in: Run) -> None:
    result = run_in("brokers: []\n", "explain", "a")
    assert result.exit_code == 1
    assert "at least one entry is needed" in result.stderr


def test_something_must_be_asked(run_in: Run) -> None:
    assert "expected a topic, a decision id, or --client ID" in run_in(TEXT, "explain").stderr
    assert run_in(TEXT, "explain", "--client", "b", "--group", "c").exit_code == 2


def test_a_topic_that_looks_like_an_id_is_explained_as_a_topic(run_in: Run) -> None:
    result = run_in(TEXT, "explain", "orders-created")
    assert result.exit_code == 0
    assert "explaining it as a topic" in result.stderr
    assert result.stdout.startswith("topic orders-created, namespace default")


def test_a_quoted_refusal_that_is_not_known_is_an_error(run_in: Run) -> None:
    result = run_in(TEXT, "explain", "too many producers [sluicegate k3x9qa-1f]")
    assert result.exit_code == 1
    assert "journal" in result.stderr


def test_a_refusal_is_found_by_its_id_and_by_its_client(run_in: Run, tmp_path: Path) -> None:
    write_refusal(tmp_path / "state")
    for subject in (["k3x9qa-1f"], ["too many [sluicegate k3x9qa-1f]"], ["--client", "app"]):
        result = run_in(TEXT, "explain", *subject)
        assert result.exit_code == 0, result.stderr
        assert result.stdout.startswith("decision k3x9qa-1f: publish refused\n")
    assert run_in(TEXT, "explain", "--client", "nobody").exit_code == 1


def keep(**facts: object) -> None:
    """What a gateway remembers of its broker."""
    Path("state").mkdir()
    store = SqliteStore("state/policies.db")
    for name, fact in facts.items():
        text = fact if isinstance(fact, str) else json.dumps(fact)
        store.put_fact(f"main/{name.replace('__', '.')}", text)
    store.close()


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command runs at NOW_MS."""
    monkeypatch.setattr("sluicegate.cli.explain.time", SimpleNamespace(time_ns=lambda: NOW_MS * 1_000_000))


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.seed("S4-004")
def test_factors_are_shown_with_the_rates_that_the_smallest_leaves(run_in: Run) -> None:
    disk = {"value": 0.3, "why": "volume 1 is 95 % full", "known": True, "at_ms": NOW_MS - 42_000}
    memory = {"value": 0.8, "why": "", "known": False, "at_ms": NOW_MS - 7_300_000}
    run_in(TEXT, "explain", "t")
    keep(factor__disk=disk, factor__memory=memory, factor__broken="{", node__1="127.0.0.1:1")

    text = run_in(TEXT, "explain", "t").stdout

    assert (
        "factors, as last reported by the gateway:\n  disk    0.30  volume 1 is 95 % full; reported 42 s ago"
        in text
    )
    assert "  memory  0.80  data is missing; reported 2:01:40 ago" in text
    assert "  max_publish_rate 500/s x 0.30 = 150/s (disk)" in text
    assert "  max_publish_rate_bytes 10MiB/s x 0.30 = 3MiB/s (disk)" in text
    told = json.loads(run_in(TEXT, "explain", "t", "--json").stdout)["factors"]
    assert told["disk"] == {**disk, "mode": "enforce"}
    assert told.keys() == {"disk", "memory"}


def test_a_pause_is_shown_and_so_is_a_topic_without_a_rate(run_in: Run) -> None:
    bare = TEXT.replace("    max_publish_rate: 500/s\n    max_publish_rate_bytes: 10MiB/s\n", "")
    bare = bare.replace(
        "    ceiling: {max_publish_rate_bytes: 20MiB/s}\n    locked: [max_publish_rate]\n", ""
    )
    bare = bare.replace("  broker:\n", "  broker:\n    max_producers_per_topic: 5\n")
    keep(factor__disk={"value": 0.0, "why": "full", "known": True, "at_ms": NOW_MS})
    assert "  publishing is paused by disk\n" in run_in(bare, "explain", "t").stdout

    store = SqliteStore("state/policies.db")
    store.put_fact("main/factor.disk", json.dumps({"value": 0.5, "at_ms": NOW_MS}))
    store.close()
    assert "nothing to reduce" in run_in(bare, "explain", "t").stdout


@pytest.mark.usefixtures("stopped_clock")
def test_the_adaptive_controller_is_shown_with_the_topic(run_in: Run) -> None:
    keep(
        adaptive__status={
            "at_ms": NOW_MS,
            "memory_pressure": 0.4,
            "throttled": 1,
            "settings_refused": "",
            "topics": {"t": {"messages_per_s": 12.5}},
        }
    )

    text = run_in(TEXT, "explain", "t").stdout

    assert (
        "adaptive status, as last reported by the gateway: memory_pressure 0.4, throttled 1, reported 0 s ago"
        in text
    )
    assert "  this topic: messages_per_s 12.5" in text
    assert "this topic" not in run_in(TEXT, "explain", "other").stdout


SCOPED = f"""{TEXT}
    - name: orders.created
      for: {{principals: ["User:a"]}}
      max_publish_rate_bytes: 1MiB/s
    - name: orders.created
      for: {{groups: [batch-*]}}
      max_dispatch_rate: 5/s
""".replace("\n\n    -", "\n    -")


def test_scopes_are_shown_with_what_they_set(run_in: Run) -> None:
    shown = run_in(SCOPED, "explain", "orders.created")

    assert table(shown)["max_publish_rate_bytes"][0] == "20MiB/s"
    _, of_a, of_batch = shown.stdout.split("\nfor ")
    assert of_a.startswith("principals User:a:\n  max_publish_rate_bytes  1MiB/s  topic  gateway.yaml:19\n")
    assert of_batch.startswith("groups batch-*:\n  max_dispatch_rate  5/s  topic  gateway.yaml:22\n")


def test_what_holds_for_a_client_is_shown_on_demand(run_in: Run) -> None:
    named = ("--principal", "User:a", "--client", "app", "--group", "batch-1")
    shown = run_in(SCOPED, "explain", "orders.created", *named)

    assert table(shown)["max_publish_rate_bytes"] == [
        "1MiB/s",
        "topic",
        "file",
        "gateway.yaml:19, for principals User:a",
    ]
    assert "for groups batch-* (applied above):" in shown.stdout

    result = run_in(SCOPED, "explain", "orders.created", "--principal", "User:a", "--json")
    answer = json.loads(result.stdout)
    assert answer["policies"]["max_publish_rate_bytes"]["scope"] == "principals User:a"
    assert "max_dispatch_rate" not in answer["policies"]
    assert [(each["for"], each["applied"]) for each in answer["scopes"]] == [
        ({"principals": ["User:a"]}, True),
        ({"groups": ["batch-*"]}, False),
    ]
