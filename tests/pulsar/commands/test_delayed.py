"""`sluicegate topics|namespaces set-, get- and remove-delayed-delivery`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sluicegate.cli import main
from sluicegate.model import Level
from sluicegate.store import SqliteStore

Run = Callable[..., Result]

FILE = """\
brokers:
  - {name: main, system: pulsar, bootstrap: ["127.0.0.1:6650"], listen: {port: 16650}}
  - {name: other, system: pulsar, bootstrap: ["127.0.0.1:6660"], listen: {port: 16660}}
state_dir: state
policies:
  broker: {max_delivery_delay: 1d}
  topics:
    - {name: "persistent://public/default/locked", fixed_delivery_delay: 5s, locked: [fixed_delivery_delay]}
"""
ORDERS = "persistent://public/default/orders"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `sluicegate ARGUMENTS` where `gateway.yaml` names two Pulsar clusters."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka,pulsar")
    Path("gateway.yaml").write_text(FILE)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(main, arguments, catch_exceptions=False)

    return invoke


def stored(level: Level = Level.TOPIC, name: str = ORDERS) -> dict[str, object]:
    store = SqliteStore("state/policies.db")
    _, layers = store.layers()
    store.close()
    return {
        field: setting.value
        for layer in layers
        if (layer.level, layer.name) == (level, name)
        for field, setting in layer.settings.items()
    }


@pytest.mark.seed("S2-014")
@pytest.mark.parametrize("option", ["--fixed-delay", "-fd"])
def test_a_topics_delays_are_set_shown_and_removed(run: Run, option: str) -> None:
    done = run(
        "topics", "set-delayed-delivery", "orders", option, "30s", "--max-delay", "3600000", "--disable"
    )
    assert (done.exit_code, done.stdout) == (
        0,
        f"{ORDERS}: fixed delay 30s, longest delay 1h, delayed delivery active false\n",
    )
    assert stored() == {
        "fixed_delivery_delay": 30_000,
        "max_delivery_delay": 3_600_000,
        "delayed_delivery_active": False,
    }
    assert run("topics", "get-delayed-delivery", ORDERS).stdout == (
        "fixed delay: 30s (store version 1)\n"
        "longest delay: 1h (store version 1)\n"
        "delayed delivery active: false (store version 1)\n"
    )
    assert run("topics", "remove-delayed-delivery", "public/default/orders-partition-3").exit_code == 0
    assert stored() == {}
    assert "nothing set; --applied" in run("topics", "get-delayed-delivery", "orders").stdout


@pytest.mark.seed("S2-014")
def test_the_name_of_the_proposal_is_the_same_command(run: Run) -> None:
    assert run("topicPolicies", "set-delayed-delivery", "orders", "-fd", "30s").exit_code == 0
    assert run("topics", "get-delayed-delivery", "orders").stdout == "fixed delay: 30s (store version 1)\n"
    assert run("topicPolicies", "remove-delayed-delivery", "orders").exit_code == 0
    assert stored() == {}


@pytest.mark.seed("S2-014", "S2-007")
def test_a_namespaces_delays_are_inherited_unless_a_topic_disables_them(run: Run) -> None:
    assert (
        run("namespaces", "set-delayed-delivery", "public/default", "-fd", "5s", "-t", "100ms").exit_code == 0
    )
    assert stored(Level.NAMESPACE, "public/default") == {
        "fixed_delivery_delay": 5000,
        "delayed_delivery_tick_time": 100,
    }
    shown = run("topics", "get-delayed-delivery", "orders", "--applied", "--broker", "other").stdout
    assert shown == (
        "fixed delay: 5s (namespace, store version 1)\n"
        "longest delay: 1d (broker, gateway.yaml:6)\n"
        "tick time: 100ms (namespace, store version 1)\n"
    )
    run("topics", "set-delayed-delivery", "orders", "-fd", "0")
    applied = json.loads(run("topics", "get-delayed-delivery", "orders", "-ap", "--json").stdout)
    assert applied == {
        "fixedDeliveryDelayInMillis": 0,
        "maxDeliveryDelayInMillis": 86_400_000,
        "tickTime": 100,
    }
    own = run("namespaces", "get-delayed-delivery", "public/default", "--json").stdout
    assert json.loads(own) == {"fixedDeliveryDelayInMillis": 5000, "tickTime": 100}


def test_omitted_options_change_nothing(run: Run) -> None:
    run("topics", "set-delayed-delivery", "orders", "-fd", "30s")
    run("topics", "set-delayed-delivery", "orders", "-md", "1h", "--enable")
    assert stored() == {
        "fixed_delivery_delay": 30_000,
        "max_delivery_delay": 3_600_000,
        "delayed_delivery_active": True,
    }


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["topics", "set-delayed-delivery", "orders"], 2, "expected --fixed-delay, --max-delay, --time"),
        (["topics", "set-delayed-delivery", "orders", "-fd", "3parsec"], 2, "known units: d, h, min"),
        (["topics", "set-delayed-delivery", "orders", "-fd", "-1"], 2, "'-1' is negative"),
        (["topics", "set-delayed-delivery", "orders", "-fd", "101y"], 2, "unknown unit 'y'"),
        (["topics", "set-delayed-delivery", "orders", "-md", "36526d"], 2, "at most 36525d"),
        (["topics", "set-delayed-delivery", "persistent://a", "-fd", "1"], 2, "expected persistent://tenant"),
        (["namespaces", "set-delayed-delivery", "default", "-fd", "1"], 2, "expected tenant/namespace"),
        (["topics", "set-delayed-delivery", "locked", "-fd", "1"], 1, "is locked in gateway.yaml:8"),
        (["topics", "get-delayed-delivery", "orders", "--broker", "x"], 2, "with one of: main, other"),
        (["topics", "get-delayed-delivery", "orders", "-c", "gone.yaml"], 1, "cannot read 'gone.yaml'"),
    ],
)
def test_an_impossible_change_is_reported_and_changes_nothing(
    run: Run, arguments: list[str], code: int, text: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == code
    assert text in result.stderr
    assert not Path("state").exists()


def test_a_file_without_pulsar_is_reported(run: Run) -> None:
    Path("gateway.yaml").write_text(
        "brokers: [{name: k, system: kafka, bootstrap: ['a:1'], listen: {port: 5}}]\n"
    )
    result = run("topics", "set-delayed-delivery", "orders", "-fd", "1s")
    assert (result.exit_code, "the file names no Pulsar broker" in result.stderr) == (2, True)


def test_an_unusable_store_is_reported(run: Run) -> None:
    Path("state").mkdir()
    Path("state/policies.db").write_text("nothing of the kind " * 100)
    result = run("topics", "remove-delayed-delivery", "orders")
    assert result.exit_code == 1
    assert "is damaged or not such a database" in result.stderr


@pytest.mark.parametrize("group", ["topics", "namespaces"])
def test_every_option_is_explained(run: Run, group: str) -> None:
    assert f" {group} " in run("--help").stdout
    text = run(group, "set-delayed-delivery", "--help").stdout
    for option in (
        "-fd, --fixed-delay",
        "-md, --max-delay",
        "-t, --time",
        "--enable / --disable",
        "--config",
    ):
        assert option in text
