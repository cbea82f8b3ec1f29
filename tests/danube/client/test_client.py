"""danube-client's classes with the policies in their own process, on the reference broker."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from danube import DanubeError
from tests.danube.support.clients import consuming, producing

from sluicegate_danube.client import DanubeClient, DanubeClientBuilder
from sluicegate_danube.client.exceptions import PolicyError
from sluicegate_danube.reference import ReferenceBroker

NewClient = Callable[..., Any]
"""`new_client(topic, **policies)`: a context with a client that applies them to that topic."""


@pytest.fixture
def new_client(reference: ReferenceBroker, tmp_path: Path) -> NewClient:
    @asynccontextmanager
    async def make(topic: str, **policies: Any) -> AsyncIterator[DanubeClient]:
        url = reference.urls[0]
        entry = {
            "name": "danube",
            "system": "danube",
            "bootstrap": [url.removeprefix("http://")],
        }
        path = tmp_path / "policies.yaml"
        document = {
            "state_dir": str(tmp_path / "state"),
            "brokers": [entry],
            "policies": {"topics": [{"name": topic, **policies}]},
        }
        path.write_text(yaml.safe_dump(document))
        client = await DanubeClientBuilder(policies=str(path)).service_url(url).build()
        try:
            yield client
        finally:
            for connection in client.connection_manager._connections.values():
                await connection.channel.close()
            client.close_policies()

    return make


async def test_what_no_policy_concerns_passes_in_order(new_client: NewClient, topic: str) -> None:
    values = [str(number).encode() for number in range(50)]
    async with (
        new_client(topic) as client,
        producing(client, topic) as producer,
        consuming(client, topic) as consumer,
    ):
        for value in values:
            await producer.send(value)
        assert await consumer.take(len(values)) == values


async def test_a_large_message_is_refused_and_the_others_are_stored(
    new_client: NewClient, topic: str
) -> None:
    async with (
        new_client(topic, max_message_size=100) as client,
        producing(client, topic) as producer,
        consuming(client, topic) as consumer,
    ):
        await producer.send(b"a" * 100)
        with pytest.raises(PolicyError, match=r"Limit: 100 bytes.*\[sluicegate [a-z0-9-]+\]"):
            await producer.send(b"b" * 101)
        await producer.send(b"c")
        assert await consumer.take(2) == [b"a" * 100, b"c"]


async def test_before_they_are_open_they_fail_as_the_originals(new_client: NewClient, topic: str) -> None:
    async with new_client(topic, max_publish_rate=10) as client:
        producer = client.new_producer().with_topic(topic).with_name("early").build()
        with pytest.raises(DanubeError, match="partition ID out of range"):
            await producer.send(b"lost")
        builder = client.new_consumer().with_topic(topic).with_consumer_name("early")
        consumer = builder.with_subscription("mine").build()
        queue = await consumer.receive()
        assert queue.empty()
        await consumer.close()


async def test_one_producer_too_many_is_refused_until_another_ends(new_client: NewClient, topic: str) -> None:
    async with new_client(topic, max_producers_per_topic=1) as client:
        async with producing(client, topic):
            with pytest.raises(PolicyError, match="Producer limit"):
                async with producing(client, topic, "second"):
                    pass
        async with producing(client, topic, "third"):
            pass


async def test_a_rate_that_would_drop_is_named_and_makes_messages_wait(
    new_client: NewClient, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    values = [str(number).encode() for number in range(7)]
    async with (
        new_client(topic, max_dispatch_rate=5, on_limit={"max_dispatch_rate": "drop"}) as client,
        producing(client, topic) as producer,
        consuming(client, topic) as consumer,
    ):
        engine = client._policies.engine
        assert list(engine.not_enforced) == ["on_limit.max_dispatch_rate"]
        assert engine.explain(topic)["not_enforced"] == engine.not_enforced
        for value in values:
            await producer.send(value)
        assert await consumer.take(len(values)) == values
    assert len([each for each in caplog.records if "on_limit.max_dispatch_rate" in each.message]) == 1


async def test_dispatched_at_its_rate_nothing_is_lost_doubled_or_reordered(
    new_client: NewClient, topic: str
) -> None:
    values = [str(number).encode() for number in range(50)]
    async with (
        new_client(topic, max_dispatch_rate=20) as client,
        producing(client, topic, reliable=True) as producer,
        consuming(client, topic) as consumer,
    ):
        began_s = time.monotonic()
        for value in values:
            await producer.send(value)
        assert await consumer.take(len(values)) == values
        assert time.monotonic() - began_s >= 1.4  # 20 of them were the burst
