"""The paths of a cluster's metadata, built and parsed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_danube.failover import keys

name = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=20)
topic = st.builds("/{}/{}".format, name, name)
broker = st.integers(0, keys.MAX_BROKER)


@given(broker, topic, name)
def test_parsing_inverts_building(broker: int, topic: str, part: str) -> None:
    namespace = topic.split("/")[1]
    assert keys.parse(keys.registration_key(broker)) == keys.Registration(broker)
    assert keys.parse(keys.state_key(broker)) == keys.State(broker)
    assert keys.parse(keys.assignment_key(broker, topic)) == keys.Assignment(broker, topic)
    assert keys.parse(keys.unassigned_key(topic)) == keys.Unassigned(topic)
    assert keys.parse(keys.load_key(broker)) == keys.Load(broker)
    assert keys.parse(keys.controller_key(broker)) == keys.Controller(broker)
    assert keys.parse(keys.topic_key(topic, part)) == keys.TopicEntry(topic, part)
    assert keys.parse(keys.topic_key(topic)) == keys.TopicEntry(topic, "")
    assert keys.parse(keys.namespace_key(namespace, part)) == keys.NamespaceEntry(namespace, part)
    assert keys.parse(keys.namespace_topic_key(topic)) == keys.NamespaceEntry(namespace, f"topics{topic}")
    assert keys.assignment_key(broker, topic).startswith(keys.assignments_prefix(broker))


@pytest.mark.parametrize(
    ("key", "parsed"),
    [
        ("/cluster/register/7", keys.Registration(7)),
        ("/cluster/brokers/7/state", keys.State(7)),
        ("/cluster/brokers/7/default/t", keys.Assignment(7, "/default/t")),
        ("/cluster/unassigned/default/t", keys.Unassigned("/default/t")),
        ("/cluster/load/7", keys.Load(7)),
        ("/cluster/leader", keys.Leader()),
        ("/cluster/my-cluster", keys.Ignored("/cluster/my-cluster")),
        ("/topics/default/t/subscriptions/s/cursor", keys.TopicEntry("/default/t", "subscriptions/s/cursor")),
        ("/namespaces/default/topics/default/t", keys.NamespaceEntry("default", "topics/default/t")),
    ],
)
def test_danubes_own_paths(key: str, parsed: keys.Key) -> None:
    assert keys.parse(key) == parsed


@pytest.mark.parametrize(
    "key",
    [
        "/cluster/register/",
        "/cluster/register/one",
        "/cluster/register/07",
        "/cluster/register/-1",
        "/cluster/register/18446744073709551616",
        "/cluster/register/\N{ARABIC-INDIC DIGIT ONE}",
        "/cluster/brokers/7",
        "/cluster/brokers/7/",
        "/cluster/brokers/7/default",
        "/cluster/brokers/7/default/",
        "/cluster/brokers/7/default/t/more",
        "/cluster/brokers/x/default/t",
        "/cluster/unassigned/t",
        "/cluster/unassigned//t",
        "/cluster/load/7/more",
        "/cluster/",
        "/topics/default",
        "/topics/default/t/",
        "/namespaces/",
        "/namespaces/default/",
        "/elsewhere",
        "",
    ],
)
def test_keys_of_unknown_shape_are_reported_as_unknown(key: str) -> None:
    parsed = keys.parse(key)
    assert isinstance(parsed, keys.Unknown)
    assert (parsed.key, parsed.problem.startswith("expected")) == (key, True)


@given(st.text(max_size=40).map(lambda rest: f"/cluster/{rest}") | st.text(max_size=40))
def test_every_key_is_parsed(key: str) -> None:
    assert keys.parse(key) is not None


@pytest.mark.parametrize("topic", ["t", "/t", "/a/b/c", "/a/", "//b", ""])
def test_no_key_is_built_from_an_invalid_topic(topic: str) -> None:
    with pytest.raises(ValueError, match="expected /namespace/topic"):
        keys.assignment_key(1, topic)
