"""Chunked messages with a short fixed delay on a Shared subscription: all arrive, none early."""

import time
from collections import Counter
from typing import Any

import pytest
from tests.pulsar.real.conftest import NewGate, NewTopic
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.family import ANSWER_S, Family, Form, Subscription, collect, numbered
from tests.pulsar.real.support.java import JavaFamily
from tests.pulsar.real.support.raw import RawClient

from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand

DELAY_MS = 300
COUNT = 8
LARGE = {"max_message_size": 0, "fixed_delivery_delay": f"{DELAY_MS}ms"}


@pytest.mark.longer(but="python")
@pytest.mark.seed("S2-022", "S2-023")
@pytest.mark.parametrize(
    ("library", "nbytes", "settings"),
    [
        ("python", 12_000_000, {}),  # three chunks each, as the broker takes 5 MiB
        ("java", 300_000, {"chunkMaxMessageSize": 50_000}),
    ],
)
def test_all_chunks_arrive_and_none_early(
    request: pytest.FixtureRequest,
    new_gate: NewGate,
    new_topic: NewTopic,
    library: str,
    nbytes: int,
    settings: dict[str, Any],
) -> None:
    family: Family = request.getfixturevalue(library)
    topic = new_topic()
    gate = new_gate({"topics": [{"name": topic, **LARGE}]})
    consumer = family.consume(gate.service_url, topic, "one")
    values = numbered(COUNT, pad=nbytes)
    producer = family.produce(gate.service_url, topic, values, form=Form.CHUNKED, settings=settings)
    assert all(one.entry for one in producer.close())
    received = collect(consumer, COUNT, 2 * ANSWER_S)
    assert Counter(one.value for one in received) == Counter(values)
    assert min(one.at_ms - one.published_ms for one in received) >= DELAY_MS
    consumer.close()


@pytest.mark.longer(but="python")
@pytest.mark.seed("S2-022")
@pytest.mark.parametrize("kind", [Subscription.SHARED, Subscription.KEY_SHARED])
def test_chunks_that_the_broker_sends_out_of_order_make_one_message(
    pulsar: PulsarBroker, new_gate: NewGate, new_topic: NewTopic, family: Family, kind: Subscription
) -> None:
    """As it does when it stands still for a moment: here the first chunk has a later delivery time."""
    topic = new_topic()
    gate = new_gate({"topics": [{"name": topic, **LARGE}]})
    consumer = family.consume(gate.service_url, topic, "one", kind)
    now_ms = time.time_ns() // 1_000_000
    deliver_at = (now_ms + 3_000, now_ms + 2_000, now_ms - 1)
    with RawClient(pulsar.address) as direct:
        assert direct.producer(topic).type == BaseCommand.PRODUCER_SUCCESS
        for number, at_ms in enumerate(deliver_at):
            chunk: dict[str, Any] = {
                "chunk_id": number,
                "num_chunks_from_msg": 3,
                "total_chunk_msg_size": 3,
                "uuid": "raw-0",
            }
            receipt = direct.publish(
                b"%d" % number, publish_time=now_ms, deliver_at_time=at_ms, partition_key="k", **chunk
            )
            assert receipt.type == BaseCommand.SEND_RECEIPT
    (received,) = collect(consumer, 1)
    assert (received.value, received.at_ms >= now_ms + DELAY_MS) == ("012", True)
    consumer.close()


@pytest.mark.seed("S2-022")
def test_a_client_that_waits_for_receipts_between_chunks_gets_an_error(
    new_gate: NewGate, new_topic: NewTopic, java: JavaFamily
) -> None:
    """It would wait until its own time-out, as the gateway waits for the rest."""
    topic = new_topic()
    gate = new_gate({"topics": [{"name": topic, **LARGE}]}, max_hold="1s")
    consumer = java.consume(gate.service_url, topic, "one")
    waiting = {"blockIfQueueFull": True, "maxPendingMessages": 2}
    values = [*numbered(1, "large", pad=4_500), *numbered(1, "small")]
    producer = java.produce(gate.service_url, topic, values, form=Form.CHUNKED, settings=waiting)
    told = {one.value.split(":")[0]: one.entry is not None for one in producer.close()}
    assert told == {"large": False, "small": True}
    assert [one.value for one in collect(consumer, 1)] == values[1:]
    consumer.close()
