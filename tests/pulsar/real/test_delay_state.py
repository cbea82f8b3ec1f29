"""A fixed delay keeps the broker's delayed-delivery state small."""

import random
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pulsar as library
import pytest
from tests.pulsar.real.conftest import NewTopic
from tests.pulsar.real.support.admin import Admin, topic_path
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.delays import DELAY_MS, at_once, fixed
from tests.pulsar.real.support.family import (
    ANSWER_S,
)
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.python import connect


@pytest.mark.seed("S2-018", "S2-028")
def test_a_common_delay_keeps_the_delayed_state_of_the_broker_small(
    pulsar: PulsarBroker, gate: Gate, admin: Admin, new_topic: NewTopic
) -> None:
    """Random delays leave holes between what is acknowledged, which a cursor can persist only so many of."""
    count, topics = 150, {"direct": new_topic(), "gate": new_topic()}
    urls = {"direct": pulsar.service_url, "gate": gate.service_url}
    fixed(gate, [topics["gate"]])
    delays: dict[str, set[int]] = {}
    holes: dict[str, int] = {}

    def scenario(way: str, topic: str) -> None:
        client = connect(urls[way])
        consumer = client.subscribe(topic, "one", library.ConsumerType.Shared)
        places = publish_at_random(client, topic, count)
        holes[way] = acknowledge_all(consumer, count, lambda: holes_now(admin, topic))
        delays[way] = {delay_ms(admin, topic, place) for place in places}
        client.close()

    at_once(scenario, topics.items())
    assert len(delays["direct"]) > count // 2
    assert delays["gate"] == {DELAY_MS}
    # On a slow machine all is due before the first is acknowledged, so that the other way has few holes, too.
    assert holes["gate"] <= 1, holes


def publish_at_random(client: Any, topic: str, count: int) -> list[Any]:
    """Ask for delays of 1 to 4 s; returns the places of the messages."""
    chance = random.Random(18)
    producer = client.create_producer(topic)
    return [
        producer.send(b"x", deliver_after=timedelta(milliseconds=chance.randint(1_000, 4_000)))
        for _ in range(count)
    ]


def delay_ms(admin: Admin, topic: str, place: Any) -> int:
    """How much later than its publication an entry is to be delivered."""
    headers = admin.entry_headers(topic, place.ledger_id(), place.entry_id())
    published, due = (
        datetime.fromisoformat(headers[f"x-pulsar-{what}-time"]) for what in ("publish", "deliver-at")
    )
    return round((due - published).total_seconds() * 1_000)


def acknowledge_all(consumer: Any, count: int, look: Callable[[], int]) -> int:
    """Receive and acknowledge so many messages; returns the most that `look` has seen meanwhile."""
    most, received, deadline = 0, 0, time.monotonic() + ANSWER_S
    while received < count:
        assert time.monotonic() < deadline, f"{received} of {count} received"
        try:
            consumer.acknowledge(consumer.receive(timeout_millis=50))
            received += 1
        except library.Timeout:
            most = max(most, look())
    return most


def holes_now(admin: Admin, topic: str) -> int:
    told = admin.get(f"{topic_path(topic)}/internalStats")["cursors"]["one"]
    found: int = told["totalNonContiguousDeletedMessagesRange"]
    return found
