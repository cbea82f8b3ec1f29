"""Names that a broker can have are never refused, whatever pattern stands for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.broker import BaseDriver
from sluicegate.config.consistency import impossible_names, policy_levels
from sluicegate.config.models import BrokerConfig
from sluicegate.config.tree import parse
from sluicegate.model import Level
from sluicegate_danube.plugin import DanubeDriver
from sluicegate_kafka.plugin import KafkaDriver
from sluicegate_pulsar.plugin import PulsarDriver

PLAIN = st.text("ab.-_é:", min_size=1, max_size=4)
DOMAINS = st.sampled_from(["", "persistent://", "non-persistent://"])
PATHS = st.lists(PLAIN | st.just("a://b"), min_size=3, max_size=5).map("/".join)
TOPICS = {
    "kafka": st.text("aZ0._-", min_size=1, max_size=249),
    "pulsar": st.builds(str.__add__, DOMAINS, PATHS) | PLAIN,
    "danube": st.builds("/{}/{}{}".format, PLAIN, PLAIN, st.sampled_from(["", "-part-0"])),
}
DRIVERS: dict[str, BaseDriver] = {
    driver.system: driver for driver in (DanubeDriver(), KafkaDriver(), PulsarDriver())
}
EACH = pytest.mark.parametrize("system", sorted(DRIVERS))


def entry(system: str, **more: object) -> BrokerConfig:
    text = {"name": "a", "system": system, "bootstrap": ["b:1"], "listen": {"port": 5}, **more}
    model: type[BrokerConfig] = DRIVERS[system].config_model
    return model.model_validate(text)


def pattern(data: st.DataObject, name: str) -> str:
    """A pattern that the name fits; perhaps the name itself."""
    start = data.draw(st.integers(0, len(name)))
    end = data.draw(st.integers(start, len(name)))
    return data.draw(st.sampled_from([name, f"{name[:start]}*{name[end:]}"]))


@EACH
@given(st.data())
def test_possible_names_are_not_refused(system: str, data: st.DataObject) -> None:
    config = entry(system)
    topic = data.draw(TOPICS[system])
    read = DRIVERS[system].name_of(topic, config)
    if not read.namespace:
        return  # the broker refuses such a name
    name = data.draw(st.sampled_from(read.all))
    assert config.rule_of_names(Level.TOPIC, pattern(data, name)) == ""
    assert config.rule_of_names(Level.NAMESPACE, pattern(data, read.namespace)) == ""


@pytest.mark.parametrize(
    ("system", "level", "name"),
    [
        ("kafka", Level.TOPIC, "a/b"),
        ("kafka", Level.TOPIC, "a" * 250),
        ("kafka", Level.NAMESPACE, "orders.*"),
        ("pulsar", Level.TOPIC, "a/b"),
        ("pulsar", Level.TOPIC, "kafka://*"),
        ("pulsar", Level.NAMESPACE, "a/b/c/d"),
        ("danube", Level.TOPIC, "orders*"),
        ("danube", Level.NAMESPACE, "/default"),
    ],
)
def test_impossible_names_are_reported_with_the_rules_for_names(system: str, level: Level, name: str) -> None:
    assert "'" in entry(system).rule_of_names(level, name)


@pytest.mark.parametrize(("separator", "possible"), [(".", False), ("-", True), ("", False), ("e", False)])
def test_kafkas_namespaces_end_at_the_configured_separator(separator: str, possible: bool) -> None:
    config = entry("kafka", namespace_separator=separator)
    assert (config.rule_of_names(Level.NAMESPACE, "orders.eu") == "") is possible
    assert config.rule_of_names(Level.NAMESPACE, "default") == ""
    assert config.rule_of_names(Level.NAMESPACE, "d*") == ""


def test_only_names_of_namespaces_and_topics_are_looked_at() -> None:
    text = """\
policies:
  broker: {name: orders.eu}
  namespaces: [{name: orders.eu}]
  topics: [{name: orders.eu}, {name: a/b}]
"""
    levels = policy_levels(parse(text, "file", []))
    found = [finding.message for finding in impossible_names(levels, [entry("kafka")])]
    assert found == [
        "no broker of this file can have a namespace 'orders.eu'",
        "no broker of this file can have a topic 'a/b'",
    ]
