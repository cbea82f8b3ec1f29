"""Rates on a real broker: what passes in a window, and who is not slowed down by another one's limit."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import pytest
from tests.pulsar.real.conftest import NewTopic
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.delays import at_once
from tests.pulsar.real.support.family import (
    ANSWER_S,
    Family,
    Form,
    Subscription,
    collect,
    eventually,
    numbered,
)
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.history import judge
from tests.pulsar.real.support.java import JavaFamily
from tests.pulsar.real.support.python import PythonFamily, connect, read_topic

RATE, BURST_S = 100, 0.5
WINDOWS_S = (0.5, 1.0, 1.5)
SLACK_S = 1.0
"""How much what was admitted in time may be bunched up on its way to a busy client."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def assert_within(times_ms: Sequence[int], began_ms: int) -> None:
    """In every window at most so many, wherever it begins; and all of them not faster than the rate.

    :param began_ms: before the first could pass.
    """
    times = sorted(times_ms)
    for window_s in WINDOWS_S:
        most = RATE * (window_s + SLACK_S + BURST_S) + 1
        for first, begin in enumerate(times):
            inside = sum(at < begin + window_s * 1_000 for at in times[first:])
            assert inside <= most, f"{inside} in {window_s} s from {begin - times[0]} ms on"
    assert (times[-1] - began_ms) / 1_000 >= len(times) / RATE - BURST_S


def assert_kept(measured: Callable[[], float], wanted_s: float) -> None:
    """In one of three runs it took little longer than it must: others may be what is slow."""
    took: list[float] = []
    while not took or (took[-1] > 1.5 * wanted_s and len(took) < 3):
        took.append(measured())
    assert took[-1] <= 1.5 * wanted_s, f"three runs took {took} s, expected {wanted_s}"


@pytest.mark.seed("S1-005", "S1-060", "S1-061", "S1-066")
@pytest.mark.parametrize("form", [Form.SINGLE, Form.BATCHED])
def test_what_is_published_in_any_window(
    pulsar: PulsarBroker, gate: Gate, new_topic: NewTopic, python: PythonFamily, java: JavaFamily, form: Form
) -> None:
    count = 350
    wanted_s = count / RATE - BURST_S
    batches: dict[str, dict[str, Any]] = {
        "python": {"batching_max_messages": 5},
        "java": {"batchingMaxMessages": 5},
    }

    def published(family: Family, topic: str) -> float:
        settings = batches[family.name] if form is Form.BATCHED else None
        began_ms = now_ms()
        told = family.produce(gate.service_url, topic, numbered(count), form=form, settings=settings).close()
        assert all(one.entry for one in told)
        judge(told, read_topic(pulsar.service_url, topic)).assert_clean()
        times = [one.at_ms for one in told]
        assert_within(times, began_ms)
        return (max(times) - min(times)) / 1_000

    def measured() -> float:
        topics = [new_topic(), new_topic()]
        limits = {"max_publish_rate": RATE, "burst_seconds": BURST_S}
        gate.apply({"topics": [{"name": topic, **limits} for topic in topics]})
        with ThreadPoolExecutor(2) as pool:
            return max(pool.map(published, (python, java), topics))

    assert_kept(measured, wanted_s)


@pytest.mark.seed("S1-005")
def test_a_limited_producer_does_not_slow_down_another_one_of_its_connection(
    gate: Gate, new_topic: NewTopic
) -> None:
    limited_topic, free_topic = new_topic("limited"), new_topic("free")
    waiting, free_count, payload = 200, 900, b"x" * 100
    gate.apply({"topics": [{"name": limited_topic, "max_publish_rate": 10, "burst_seconds": 0.1}]})
    client = connect(gate.service_url, operation_timeout_seconds=30)
    answers: dict[str, list[object]] = {"limited": [], "free": []}

    def note(which: str) -> Callable[[object, object], None]:
        return lambda result, _: answers[which].append(result)

    limited, free = client.create_producer(limited_topic), client.create_producer(free_topic)
    for _ in range(waiting):
        limited.send_async(payload, note("limited"))
    for _ in range(free_count):
        free.send_async(payload, note("free"))
    eventually(lambda: len(answers["free"]) == free_count, "the free one is through")
    # The limited one takes 20 s.
    assert len(answers["limited"]) < waiting
    assert {str(result) for result in answers["free"]} == {"Result.Ok"}
    assert gate.decided(topic=limited_topic, action="delay")[0]["policy"] == "max_publish_rate"
    client.shutdown()


POLICIES = ("max_dispatch_rate", "max_subscription_dispatch_rate")
KINDS = (Subscription.SHARED, Subscription.EXCLUSIVE)


@pytest.mark.seed("S1-006", "S1-007", "S1-071", "S1-076", "S1-080")
def test_what_is_delivered_in_any_window(
    gate: Gate, new_topic: NewTopic, python: PythonFamily, java: JavaFamily
) -> None:
    count = 250
    cases = [(new_topic(), *case) for case in product((python, java), POLICIES, KINDS)]
    limits = [{"name": topic, policy: RATE, "burst_seconds": BURST_S} for topic, _, policy, _ in cases]
    gate.apply({"topics": limits})

    def scenario(topic: str, family: Family, policy: str, kind: Subscription) -> None:
        family.produce(gate.service_url, topic, numbered(count)).close()
        began_ms = now_ms()
        consumers = [family.consume(gate.service_url, topic, name, kind) for name in ("one", "two")]
        received = [collect(consumer, count, 2 * ANSWER_S) for consumer in consumers]
        for consumer in consumers:
            consumer.close()
        for deliveries in received:
            assert [one.value for one in deliveries] == numbered(count)
        times = [[one.at_ms for one in deliveries] for deliveries in received]
        # A rate of the topic is for both together.
        for limited in [times[0] + times[1]] if policy == "max_dispatch_rate" else times:
            assert_within(limited, began_ms)

    began = time.monotonic()
    at_once(scenario, cases)
    assert time.monotonic() - began < 3 * (2 * count / RATE)
