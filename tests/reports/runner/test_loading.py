"""Scenario files: all mistakes at once, each with place and remedy."""

from pathlib import Path

import pytest

from sluicegate.config.errors import ConfigErrors
from sluicegate.config.tree import MAX_BYTES
from sluicegate.runtime.plugins import load_plugins
from sluicegate_reports.runner.command import shipped
from sluicegate_reports.runner.loading import LoadedScenario, load_scenario

GOOD = """\
name: small
topics:
  - { name: orders }
producers:
  - { name: source, topic: orders, rate: 10/s }
phases:
  - { name: all, duration: 1s }
policies:
  topics:
    - { name: orders, max_publish_rate: 5/s }
"""


def load(directory: Path, text: str) -> LoadedScenario:
    file = directory / "scenario.yaml"
    file.write_text(text)
    return load_scenario(file, load_plugins(()).policy_models)


@pytest.mark.parametrize(
    ("old", "new", "line", "message", "remedy"),
    [
        ("name: small", "nme: small", 1, "unknown key 'nme'", "did you mean 'name'?"),
        ("name: small", "name: Small Topic", 1, "'Small Topic'", ""),
        ("rate: 10/s", "rat: 10/s", 5, "unknown key 'rat'", "did you mean 'rate'?"),
        ("rate: 10/s", "rate: -1", 5, "-1 is negative", "write 0"),
        ("rate: 10/s", "size: 19", 5, "must be greater than or equal to 20", ""),
        ("rate: 10/s", "count: 0", 5, "must be greater than or equal to 1", ""),
        ("rate: 10/s", "start: 5s, stop: 2s", 5, "it stops before it starts", "'stop' after its 'start'"),
        ("rate: 10/s", "delay: 3 weeks", 5, "unknown unit 'weeks'", "known units"),
        ("topic: orders", "topic: order", 5, "there is no topic 'order'", "did you mean 'orders'?"),
        ("duration: 1s", "duration: soon", 7, "'soon' is not", "write '30s'"),
        ("duration: 1s", "rates: []", 7, "missing key 'duration'", "add 'duration:'"),
        (
            "duration: 1s",
            "duration: 1s, rates: [{ producer: sauce, rate: 1/s }]",
            7,
            "there is no producer 'sauce'",
            "did you mean 'source'?",
        ),
        (
            "duration: 1s",
            "duration: 1s, rates: [{ producer: source, rate: 1/s, silent: true }]",
            7,
            "a silent producer has no rate",
            "keep one of them",
        ),
        (
            "max_publish_rate",
            "max_publsh_rate",
            10,
            "unknown key 'max_publsh_rate'",
            "did you mean 'max_publish_rate'?",
        ),
        ("orders, max", "order, max", 10, "the scenario has no topic 'order'", "did you mean 'orders'?"),
        ("  - { name: orders }", "  - { name: orders }\n  - { name: orders }", 4, "is given twice", "line 3"),
        (
            "  - { name: orders }",
            "  - { name: orders }\n  - { name: pre-orders }",
            4,
            "ends with the name of topic 'orders'",
            "choose another name",
        ),
        ("topics:\n  - { name: orders }", "topics: []", 2, "at least one entry", ""),
        ("phases:", "consumers:\n  - { name: source, topic: orders }\nphases:", 7, "given twice", "line 5"),
        ("phases:", "systems: { kafka: { bootstrap: [here] } }\nphases:", 6, "not an address", "host:port"),
        ("phases:", "systems: { rabbit: {} }\nphases:", 6, "unknown key 'rabbit'", "known here: kafka"),
    ],
)
def test_a_mistake_is_reported_with_place_and_remedy(
    old: str, new: str, line: int, message: str, remedy: str, tmp_path: Path
) -> None:
    assert old in GOOD
    with pytest.raises(ConfigErrors) as refused:
        load(tmp_path, GOOD.replace(old, new, 1))
    errors = [error for error in refused.value.errors if message in error.message]
    assert errors, refused.value.render()
    assert errors[0].line == line
    assert errors[0].column >= 1
    assert remedy in errors[0].remedy


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("rate: 10/s", "rate: fast").replace("duration: 1s", "duration: 0")
    text = text.replace("topic: orders,", "topic: order,") + "surplus: 1\n"
    with pytest.raises(ConfigErrors) as refused:
        load(tmp_path, text)
    assert [error.line for error in refused.value.errors] == [5, 5, 7, 11]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"- a\n", "expected a mapping"),
        (b"name: [\n", "not YAML"),
        (b"\xff\xfe", "not UTF-8"),
        (b"#" * (MAX_BYTES + 1), "larger than"),
    ],
)
def test_a_file_that_is_not_a_scenario_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigErrors) as refused:
        load_scenario(file, ())
    assert message in refused.value.errors[0].message


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors) as refused:
        load_scenario(tmp_path / "none.yaml", ())
    assert "cannot read" in refused.value.errors[0].message


def test_policies_name_topics_as_they_are_on_the_systems(tmp_path: Path) -> None:
    text = GOOD + "  namespaces:\n    - { name: default, max_producers_per_topic: 2 }\n"
    assert load(tmp_path, text).policies == (
        "policies:\n"
        "  topics:\n"
        "  - name: '*orders--*'\n"
        "    max_publish_rate: 5/s\n"
        "  namespaces:\n"
        "  - name: '*default'\n"
        "    max_producers_per_topic: 2\n"
    )


@pytest.mark.parametrize("name", sorted(shipped()))
def test_shipped_scenarios_have_no_mistakes(name: str) -> None:
    loaded = load_scenario(shipped()[name], load_plugins(()).policy_models)
    assert loaded.scenario.name == name
    assert loaded.scenario.title


def test_the_shipped_scenarios() -> None:
    assert set(shipped()) == {
        "count-limits",
        "publish-rate",
        "dispatch-rates",
        "message-size",
        "fixed-delay",
        "max-delay",
        "noisy-neighbour",
        "ramp",
        "mixed",
        "demo",
        "unacknowledged",
    }
