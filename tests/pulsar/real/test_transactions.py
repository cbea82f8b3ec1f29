"""Messages in transactions, on a node of their own: the other nodes are without, as Pulsar itself is."""

from collections.abc import Iterator
from itertools import count

import pytest
from tests.pulsar.real.conftest import NewTopic
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.delays import Case, deliver, fixed
from tests.pulsar.real.support.family import Form, collect, numbered
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.history import judge, number_of
from tests.pulsar.real.support.java import JavaFamily
from tests.pulsar.real.support.python import read_topic

LIMIT, LARGE = 500, 2_000


@pytest.fixture(scope="module")
def gate(transactional_pulsar: PulsarBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """A gateway in front of the node with transactions."""
    directory = tmp_path_factory.mktemp("gate") / "run"
    with Gate(directory, transactional_pulsar.address, admin_url=transactional_pulsar.admin_url) as running:
        yield running


@pytest.fixture(scope="module")
def new_topic(transactional_pulsar: PulsarBroker) -> NewTopic:
    """Makes topics with names of their own on the node with transactions."""
    numbers = count(1)

    def make(partitions: int = 0) -> str:
        name = f"persistent://public/default/topic-{next(numbers)}"
        transactional_pulsar.admin.create_topic(name, partitions)
        return name

    return make


@pytest.mark.parametrize("through_the_gate", [False, True], ids=["direct", "gate"])
def test_committed_messages_arrive(
    transactional_pulsar: PulsarBroker,
    gate: Gate,
    new_topic: NewTopic,
    java: JavaFamily,
    through_the_gate: bool,
) -> None:
    url = gate.service_url if through_the_gate else transactional_pulsar.service_url
    topic, values = new_topic(partitions=2), numbered(20)
    published = java.produce(url, topic, values, form=Form.TRANSACTIONAL).close()
    assert {one.value for one in published if one.entry} == set(values)
    consumer = java.consume(url, topic, "all")
    received = collect(consumer, len(values))
    consumer.close()
    assert sorted(one.value for one in received) == sorted(values)


@pytest.mark.seed("S2-006", "S2-008", "S2-022")
def test_a_fixed_delay_applies_to_every_subscription(
    transactional_pulsar: PulsarBroker, gate: Gate, new_topic: NewTopic, java: JavaFamily
) -> None:
    topic = new_topic()
    fixed(gate, [topic])
    deliver(gate, transactional_pulsar.admin, topic, java, Case(Form.TRANSACTIONAL))


@pytest.mark.seed("S1-051")
def test_a_transaction_with_a_refused_message_aborts_and_the_next_commits(
    transactional_pulsar: PulsarBroker, gate: Gate, new_topic: NewTopic, java: JavaFamily
) -> None:
    topic, small, large = new_topic(), numbered(60), numbered(60, pad=LARGE)
    values = [large[number] if number % 10 == 7 else small[number] for number in range(60)]
    gate.apply({"topics": [{"name": topic, "max_message_size": LIMIT}]})
    published = java.produce(gate.service_url, topic, values, form=Form.TRANSACTIONAL).close()
    # Transactions have five messages each, and every other one has a refused one.
    failed = {number_of(one.value) for one in published if one.entry is None}
    assert failed == {number for number in range(60) if number % 10 >= 5}
    # What waits for its transaction to be registered leaves the Java client in any order.
    verdict = judge(published, read_topic(transactional_pulsar.service_url, topic))
    verdict.assert_clean(but="reordered")
