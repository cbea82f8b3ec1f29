"""Producers that overflow their queue: closed alone and reopened, with stock clients at work."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.pulsar.real.conftest import NewGate, NewTopic
from tests.pulsar.real.support.admin import Admin
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.family import ANSWER_S, EVERY_FORM, Family, Form, Published, Sending, numbered
from tests.pulsar.real.support.gate import Gate, Policies
from tests.pulsar.real.support.history import judge
from tests.pulsar.real.support.java import JavaFamily
from tests.pulsar.real.support.python import PythonFamily, connect, read_topic
from tests.waiting import until

SLOWEST, FAST = 1, 1_000
"""Messages a second: what no client is too slow for, and what is soon over."""
COUNT = 120
PATIENCE = {"python": {"send_timeout_millis": 0}, "java": {"sendTimeoutMs": 0}}
"""What deduplication asks for: a message that a client gives up may be stored nevertheless."""
NAMED = {"python": {"producer_name": "ours"}, "java": {"producerName": "ours"}}
BATCHES = {"python": {"batching_max_messages": 5}, "java": {"batchingMaxMessages": 5}}


def closed_alone(gate: Gate) -> float:
    return gate.metric("sluicegate_broker_events_total", event="publish_producer_closed")


def rate_of(topic: str, rate: int) -> Policies:
    return {"topics": [{"name": topic, "max_publish_rate": rate}]}


def sent_on_once_closed(gate: Gate, topic: str, sending: Sending) -> list[Published]:
    """Lift the rate once the producer is closed alone, however slowly its client sends; wait for the rest."""
    gate.eventually(lambda: closed_alone(gate) > 0, "it was closed alone")
    gate.apply(rate_of(topic, FAST))
    return sending.close()


@pytest.mark.longer(but="python")
@pytest.mark.seed("S1-005", "S1-061")
@pytest.mark.parametrize(
    ("library", "form"), [case for case in EVERY_FORM if case[1] in (Form.SINGLE, Form.BATCHED, Form.CHUNKED)]
)
@pytest.mark.parametrize(
    "named",
    [False, pytest.param(True, marks=pytest.mark.longer)],
    ids=["", "named, deduplicated"],
)
def test_messages_beyond_the_queue_are_resent_and_stored_once(
    pulsar: PulsarBroker,
    admin: Admin,
    new_gate: NewGate,
    new_topic: NewTopic,
    request: pytest.FixtureRequest,
    library: str,
    form: Form,
    named: bool,
) -> None:
    family: Family = request.getfixturevalue(library)
    topic = new_topic()
    settings: dict[str, Any] = dict(PATIENCE[library])
    if named:
        admin.set_policy(topic, "deduplicationEnabled", True)
        settings |= NAMED[library]
    if form is Form.BATCHED:
        settings |= BATCHES[library]
    pad, count = 0, COUNT
    if form is Form.CHUNKED:
        pad, count = (3_000, 30) if library == "java" else (6_000_000, 8)
    gate = new_gate(rate_of(topic, SLOWEST), publish_queue={"messages": 5, "bytes": "16MiB"})
    values = numbered(count, pad=pad)
    sending = family.produce(gate.service_url, topic, values, form=form, settings=settings)

    told = sent_on_once_closed(gate, topic, sending)

    assert all(one.entry for one in told)
    stored = read_topic(pulsar.service_url, topic)
    judge(told, stored).assert_clean()
    assert len(stored) == count


@pytest.mark.seed("S1-061")
def test_other_producers_of_the_connection_do_not_wait(new_gate: NewGate, new_topic: NewTopic) -> None:
    """A producer with all that its client keeps pending by default, and beside it another and a consumer."""
    limited_topic, free_topic = new_topic("limited"), new_topic("free")
    gate = new_gate({"topics": [{"name": limited_topic, "max_publish_rate": 1}]})
    client = connect(gate.service_url)
    answers: dict[str, list[object]] = {"limited": [], "free": []}

    def note(which: str) -> Callable[[object, object], None]:
        return lambda result, _: answers[which].append(result)

    limited, free = (
        client.create_producer(topic, send_timeout_millis=0) for topic in (limited_topic, free_topic)
    )
    consumer = client.subscribe(free_topic, "one")
    for _ in range(1_000):
        limited.send_async(b"x" * 100, note("limited"))
    for _ in range(900):
        free.send_async(b"x" * 100, note("free"))
    for _ in range(900):
        consumer.acknowledge(consumer.receive(ANSWER_S * 1_000))
    until(lambda: len(answers["free"]) == 900, "the free one is through")

    # The limited one takes a quarter of an hour.
    assert len(answers["limited"]) < 900
    assert {str(result) for result in answers["free"]} == {"Result.Ok"}
    assert closed_alone(gate) == 0
    client.shutdown()


@pytest.mark.seed("S1-061")
def test_other_producers_of_a_java_client_do_not_wait(
    new_gate: NewGate, new_topic: NewTopic, java: JavaFamily
) -> None:
    limited_topic, free_topic = new_topic("limited"), new_topic("free")
    gate = new_gate(
        {"topics": [{"name": limited_topic, "max_publish_rate": 1}]}, publish_queue={"bytes": "64KiB"}
    )
    limited = java.produce(gate.service_url, limited_topic, numbered(3_000), shared="one")
    free = java.produce(gate.service_url, free_topic, numbered(500), form=Form.BATCHED, shared="one")

    told = free.close()

    assert [one.value for one in told if one.entry] == numbered(500)
    # The limited one takes the better part of an hour.
    assert len([one for one in limited.published if one.entry]) < 3_000
    limited.abandon()


@pytest.mark.seed("S1-061")
def test_waiting_messages_of_a_disconnected_client_are_never_stored(
    pulsar: PulsarBroker, admin: Admin, new_gate: NewGate, new_topic: NewTopic, python: PythonFamily
) -> None:
    topic = new_topic()
    gate = new_gate({"topics": [{"name": topic, "max_publish_rate": 10}]}, publish_queue={"messages": 50})
    sending = python.produce(gate.service_url, topic, numbered(500))
    until(lambda: len(sending.published) >= 10, "some are stored")
    # Metrics may tell of a moment before it came.
    gate.eventually(lambda: gate.metric("sluicegate_held_bytes") > 0, "the metrics know of it")
    sending.abandon()
    gate.eventually(lambda: gate.metric("sluicegate_held_bytes") == 0, "nothing is held any more")
    gate.eventually(lambda: gate.metric("sluicegate_connections") == 0, "the client is gone")
    until(lambda: not admin.stats(topic)["publishers"], "the broker has taken in what was under way")

    stored = read_topic(pulsar.service_url, topic)
    time.sleep(1)
    assert len(read_topic(pulsar.service_url, topic)) == len(stored) < 500
    told = [one for one in sending.published if one.entry]
    assert [one.value for one in stored][: len(told)] == [one.value for one in told]


@pytest.mark.seed("S1-061")
def test_exclusive_access_is_kept(
    pulsar: PulsarBroker, new_gate: NewGate, new_topic: NewTopic, java: JavaFamily
) -> None:
    """Another producer waits for exclusive access, and gets it only when the first has closed."""
    topic = new_topic()
    gate = new_gate(rate_of(topic, SLOWEST), publish_queue={"messages": 5})
    sending = java.produce(
        gate.service_url, topic, numbered(COUNT), settings={"accessMode": "Exclusive", "sendTimeoutMs": 0}
    )
    number, events = java.ask(
        "produce",
        client={"serviceUrl": pulsar.service_url, "operationTimeoutMs": 600_000},
        producer={"topicName": topic, "accessMode": "WaitForExclusive"},
        values=[],
    )

    told = sent_on_once_closed(gate, topic, sending)

    assert [one.value for one in told if one.entry] == numbered(COUNT)
    judge(told, read_topic(pulsar.service_url, topic)).assert_clean()
    until(lambda: any("ready" in event for event in events), "the other one is let in")
    java.ask("stop", number)
