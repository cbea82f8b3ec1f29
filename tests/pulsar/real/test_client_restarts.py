"""Wrapped and bare clients while Pulsar restarts: each message once and in order, for both alike."""

from pathlib import Path
from typing import Any

import pulsar as library
import pytest
import yaml
from tests.pulsar.real.support.broker import PulsarBroker
from tests.waiting import LONG_S, until

from sluicegate.embedded import PolicyEngine
from sluicegate_pulsar.client import Client

pytestmark = [pytest.mark.slow, pytest.mark.longer]
COUNTS = [1_000, 10_000]
POLICIES = {"max_publish_rate": 1_000_000, "max_dispatch_rate": 1_000_000, "max_message_size": "1MiB"}
LONG_MS = int(LONG_S * 1000)


@pytest.mark.parametrize("count", COUNTS)
def test_pulsar_client(deduplicating_pulsar: PulsarBroker, tmp_path: Path, count: int) -> None:
    values = [str(number).encode() for number in range(count)]
    address = deduplicating_pulsar.service_url.removeprefix("pulsar://")
    entry = {"name": "main", "system": "pulsar", "bootstrap": [address]}
    document = {"state_dir": str(tmp_path / "state"), "brokers": [entry], "policies": {"broker": POLICIES}}
    file = tmp_path / "policies.yaml"
    file.write_text(yaml.safe_dump(document))
    with PolicyEngine.from_file(file, door="client") as engine:
        clients: dict[str, library.Client] = {
            "bare": library.Client(deduplicating_pulsar.service_url),
            "wrapped": Client(deduplicating_pulsar.service_url, policies=engine),
        }
        producers: dict[str, Any] = {}
        consumers: dict[str, Any] = {}
        told: dict[str, list[Any]] = {topic: [] for topic in clients}
        for topic, client in clients.items():
            consumers[topic] = client.subscribe(topic, "mine")
            producers[topic] = client.create_producer(
                topic, send_timeout_millis=LONG_MS, block_if_queue_full=True, max_pending_messages=count
            )
        for half in (values[: count // 2], values[count // 2 :]):
            for topic, producer in producers.items():
                for value in half:
                    producer.send_async(value, lambda result, _, topic=topic: told[topic].append(result))
            if half[0] == values[0]:
                until(lambda: all(told.values()), "some of each topic are stored")
                deduplicating_pulsar.stop()
                deduplicating_pulsar.start()
        for topic, producer in producers.items():
            producer.flush()
            assert told[topic] == [library.Result.Ok] * count, topic
        for topic, consumer in consumers.items():
            assert [received(consumer) for _ in values] == values, topic
            with pytest.raises(library.exceptions.Timeout):
                consumer.receive(500)
        for client in clients.values():
            client.close()


def received(consumer: Any) -> bytes:
    """The next message, acknowledged. Of those before the restart some may come again, as they were not."""
    message = consumer.receive(LONG_MS)
    consumer.acknowledge(message)
    data: bytes = message.data()
    return data
