"""A broker's own limits on what the gateway makes of messages: the longest delay, and a topic's size."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.family import Family, numbered
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.history import judge
from tests.pulsar.real.support.python import read_topic
from tests.pulsar.real.test_refusals import ERRORS

NAMESPACE = "persistent://public/default"
LONGEST_MS, FIXED_MS, SIZE = 5_000, 9_000, 1_000


@pytest.fixture(scope="module")
def limited(pulsar_libs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarBroker]:
    """One node that refuses longer delays."""
    directory = tmp_path_factory.mktemp("limited") / "node"
    node = PulsarBroker(directory, delayedDeliveryMaxDelayInMillis=str(LONGEST_MS))
    with closing(node.admin), node as broker:
        yield broker


@pytest.fixture(scope="module")
def gate(limited: PulsarBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """A gateway whose file sets a delay that the broker refuses, and one that it takes."""
    topics = [
        {"name": f"{NAMESPACE}/late-*", "fixed_delivery_delay": FIXED_MS},
        {"name": f"{NAMESPACE}/small-*", "fixed_delivery_delay": 100},
    ]
    directory = tmp_path_factory.mktemp("gate") / "run"
    with Gate(directory, limited.address, {"topics": topics}, admin_url=limited.admin_url) as running:
        yield running


def test_a_fixed_delay_above_the_brokers_longest_fails_each_message_once(
    limited: PulsarBroker, gate: Gate, family: Family
) -> None:
    topic, values = f"{NAMESPACE}/late-{family.name}", numbered(20)
    limited.admin.create_topic(topic)
    published = family.produce(gate.service_url, topic, values).close()
    assert [(one.value, one.entry, one.error) for one in published] == [
        (value, None, ERRORS[family.name]) for value in values
    ]
    if family.name == "java":
        assert all(f"{LONGEST_MS} milliseconds" in one.text for one in published)
        assert all(f"{FIXED_MS} milliseconds" in one.text for one in published)
    assert limited.admin.stats(topic)["msgInCounter"] == len(values), "none is sent twice"


def test_a_message_above_its_topics_size_fails_alone(
    limited: PulsarBroker, gate: Gate, family: Family
) -> None:
    topic = f"{NAMESPACE}/small-{family.name}"
    limited.admin.create_topic(topic)
    limited.admin.set_policy(topic, "maxMessageSize", SIZE)
    small, large = numbered(100), numbered(100, pad=SIZE)
    values = [large[number] if number % 5 == 4 else small[number] for number in range(100)]
    published = family.produce(gate.service_url, topic, values).close()
    assert {one.value for one in published if one.entry is None} == set(large[4::5])
    judge(published, read_topic(limited.service_url, topic)).assert_clean()
