"""Rates on a real broker: what passes in a window, and that other clients are not slowed down."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
from tests.pulsar.real.conftest import NewTopic
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.delays import at_once
from tests.pulsar.real.support.family import ANSWER_S, Family, Form, Subscription, collect, numbered
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.history import judge
from tests.pulsar.real.support.java import JavaFamily
from tests.pulsar.real.support.python import PythonFamily, connect, read_topic
from tests.real.law import FULL, assert_law
from tests.waiting import until

from sluicegate.demo.law import Limit

BURST_S, BATCH = 0.5, 5


def limit(rate: float) -> Limit:
    """The law of a rate in the tests here."""
    return Limit(rate, rate * BURST_S)


@pytest.fixture(scope="module")
def full_gate(pulsar: PulsarBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """A gateway whose log tells of each message or batch."""
    directory = tmp_path_factory.mktemp("full") / "run"
    with Gate(directory, pulsar.address, settings=FULL, admin_url=pulsar.admin_url) as running:
        yield running


@pytest.mark.seed("S1-005", "S1-060", "S1-061", "S1-066")
@pytest.mark.parametrize("form", [Form.SINGLE, Form.BATCHED])
def test_publishes_stay_within_the_rate_in_any_window(
    pulsar: PulsarBroker,
    full_gate: Gate,
    new_topic: NewTopic,
    python: PythonFamily,
    java: JavaFamily,
    form: Form,
) -> None:
    # A Java client that has just started on a busy machine sends fewer than 100 messages a second: such a
    # limit would never hold it up.
    count, rate = 80, 20
    batches: dict[str, dict[str, Any]] = {
        "python": {"batching_max_messages": BATCH},
        "java": {"batchingMaxMessages": BATCH},
    }

    def published(family: Family, topic: str) -> None:
        settings = batches[family.name] if form is Form.BATCHED else None
        sending = family.produce(full_gate.service_url, topic, numbered(count), form=form, settings=settings)
        told = sending.close()
        assert all(one.entry for one in told)
        judge(told, read_topic(pulsar.service_url, topic)).assert_clean()
        assert_law(full_gate, topic, limit(rate), "max_publish_rate", count)

    topics = [new_topic(), new_topic()]
    limits = {"max_publish_rate": rate, "burst_seconds": BURST_S}
    full_gate.apply({"topics": [{"name": topic, **limits} for topic in topics]})
    at_once(published, zip((python, java), topics, strict=True))


@pytest.mark.seed("S1-005")
def test_a_limited_producer_does_not_slow_another_on_its_connection(gate: Gate, new_topic: NewTopic) -> None:
    limited_topic, free_topic = new_topic("limited"), new_topic("free")
    waiting, free_count, payload = 200, 900, b"x" * 100
    gate.apply({"topics": [{"name": limited_topic, "max_publish_rate": 1, "burst_seconds": 1}]})
    client = connect(
        gate.service_url,
    )
    answers: dict[str, list[object]] = {"limited": [], "free": []}

    def note(which: str) -> Callable[[object, object], None]:
        return lambda result, _: answers[which].append(result)

    limited, free = (
        client.create_producer(topic, send_timeout_millis=0) for topic in (limited_topic, free_topic)
    )
    for _ in range(waiting):
        limited.send_async(payload, note("limited"))
    for _ in range(free_count):
        free.send_async(payload, note("free"))
    until(lambda: len(answers["free"]) == free_count, "the free one is through")
    # The limited one takes minutes.
    assert len(answers["limited"]) < waiting
    assert {str(result) for result in answers["free"]} == {"Result.Ok"}
    assert gate.decided(topic=limited_topic, action="delay")[0]["policy"] == "max_publish_rate"
    client.shutdown()


POLICIES = ("max_dispatch_rate", "max_subscription_dispatch_rate")
KINDS = (Subscription.SHARED, Subscription.EXCLUSIVE)


@pytest.mark.seed("S1-006", "S1-007", "S1-071", "S1-076", "S1-080")
def test_deliveries_stay_within_the_rate_in_any_window(
    full_gate: Gate, new_topic: NewTopic, python: PythonFamily, java: JavaFamily
) -> None:
    count, rate = 250, 100
    cases = [(new_topic(), *case) for case in product((python, java), POLICIES, KINDS)]
    limits = [{"name": topic, policy: rate, "burst_seconds": BURST_S} for topic, _, policy, _ in cases]
    full_gate.apply({"topics": limits})

    def scenario(topic: str, family: Family, policy: str, kind: Subscription) -> None:
        family.produce(full_gate.service_url, topic, numbered(count)).close()
        consumers = [family.consume(full_gate.service_url, topic, name, kind) for name in ("one", "two")]
        received = [collect(consumer, count, 2 * ANSWER_S) for consumer in consumers]
        for consumer in consumers:
            consumer.close()
        for deliveries in received:
            assert [one.value for one in deliveries] == numbered(count)
        # A rate of the topic is for both together.
        together = policy == "max_dispatch_rate"
        for name, passed in [(None, 2 * count)] if together else [("one", count), ("two", count)]:
            law = limit(rate)
            assert_law(full_gate, topic, law, policy, passed, operation="dispatch", subscription=name)

    at_once(scenario, cases)
