"""Danube's own client at the reference broker: what is delivered, to which consumer, and how often."""

import asyncio
from collections import Counter

import grpc
import pytest
from danube import DanubeClient, SubType
from tests.danube.support.clients import consuming, producing
from tests.waiting import LONG_S

from sluicegate_danube.reference import ReferenceBroker


def numbered(count: int) -> list[bytes]:
    return [f"message {number}".encode() for number in range(count)]


@pytest.mark.parametrize("reliable", [False, True])
@pytest.mark.parametrize("kind", list(SubType))
async def test_published_messages_are_received(
    client: DanubeClient, topic: str, kind: SubType, reliable: bool
) -> None:
    async with (
        producing(client, topic, reliable=reliable) as producer,
        consuming(client, topic, kind=kind) as consumer,
    ):
        for payload in numbered(50):
            await producer.send(payload, {"kind": kind.name})
        first = await consumer.next()
        assert (first.payload, first.subscription_name) == (b"message 0", "subscription")
        assert first.attributes == {"kind": kind.name}
        assert await consumer.take(49) == numbered(50)[1:]


async def test_each_subscription_gets_all_messages(client: DanubeClient, topic: str) -> None:
    async with (
        producing(client, topic, reliable=True) as producer,
        consuming(client, topic, "one") as one,
        consuming(client, topic, "other") as other,
    ):
        for payload in numbered(5):
            await producer.send(payload)
        assert await one.take(5) == await other.take(5) == numbered(5)


async def test_many_sends_at_once_lose_nothing(client: DanubeClient, topic: str) -> None:
    async with (
        producing(client, topic, reliable=True) as producer,
        consuming(client, topic) as consumer,
    ):
        sends = asyncio.gather(*(producer.send(payload) for payload in numbered(500)))
        received = await consumer.take(500)
        await sends
        assert Counter(received) == Counter(numbered(500))


async def test_partitions_are_topics_of_their_own(
    reference: ReferenceBroker, client: DanubeClient, topic: str
) -> None:
    async with (
        producing(client, topic, partitions=3) as producer,
        consuming(client, topic, kind=SubType.SHARED) as consumer,
    ):
        for payload in numbered(6):
            await producer.send(payload)
        assert Counter(await consumer.take(6)) == Counter(numbered(6))
        assert [len(reference.messages(f"{topic}-part-{number}")) for number in range(3)] == [2, 2, 2]
        assert reference.producers(f"{topic}-part-1") == ["producer-1"]


@pytest.mark.parametrize("reliable", [False, True])
async def test_shared_consumers_get_messages_in_turn(
    client: DanubeClient, topic: str, reliable: bool
) -> None:
    async with (
        producing(client, topic, reliable=reliable) as producer,
        consuming(client, topic, name="a", kind=SubType.SHARED) as a,
        consuming(client, topic, name="b", kind=SubType.SHARED) as b,
    ):
        for payload in numbered(10):
            await producer.send(payload)
        received = (await a.take(5)) + (await b.take(5))
        assert sorted(received) == sorted(numbered(10))


async def test_failover_switches_to_the_next_consumer(client: DanubeClient, topic: str) -> None:
    async with (
        producing(client, topic, reliable=True) as producer,
        consuming(client, topic, name="b", kind=SubType.FAILOVER) as second,
        consuming(client, topic, name="a", kind=SubType.FAILOVER) as standby,
    ):
        for payload in numbered(3):
            await producer.send(payload)
        assert await second.take(1) == [b"message 0"]
        assert await standby.nothing()
        await second.consumer.close()
        assert await standby.take(2) == numbered(3)[1:]


async def test_a_key_stays_with_one_consumer(client: DanubeClient, topic: str) -> None:
    async with (
        producing(client, topic, reliable=True) as producer,
        consuming(client, topic, name="eu", kind=SubType.KEY_SHARED, filters=("eu-*",)) as eu,
        consuming(client, topic, name="us", kind=SubType.KEY_SHARED, filters=("us-?", "us-1*")) as us,
    ):
        for key in ("eu-1", "us-1", "asia-1", "us-10", "eu-2"):
            await producer.send_with_key(key.encode(), None, key)
        assert await eu.take(2) == [b"eu-1", b"eu-2"]
        assert await us.take(2) == [b"us-1", b"us-10"]


async def test_an_exclusive_subscription_refuses_a_second_consumer(client: DanubeClient, topic: str) -> None:
    async with producing(client, topic), consuming(client, topic, name="first"):
        with pytest.raises(grpc.aio.AioRpcError, match="Exclusive") as refused:
            async with consuming(client, topic, name="second"):
                pass
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_a_returning_consumer_takes_over(
    reference: ReferenceBroker, client: DanubeClient, topic: str
) -> None:
    async with producing(client, topic, reliable=True) as producer, consuming(client, topic) as former:
        await producer.send(b"once")
        assert await former.take(1, ack=False) == [b"once"]
        former.consumer._shutdown.set()  # or the client would open its stream again, and take over in turn
        async with consuming(client, topic) as latter:
            assert await latter.take(1) == [b"once"]
            assert reference.consumers(topic, "subscription") == ["consumer"]


async def test_a_subscription_starts_at_the_latest_message(client: DanubeClient, topic: str) -> None:
    async with producing(client, topic, reliable=True) as producer:
        await producer.send(b"before")
        async with consuming(client, topic) as consumer:
            await producer.send(b"after")
            assert await consumer.take(1) == [b"after"]


async def test_reliable_messages_wait_for_their_consumer(client: DanubeClient, topic: str) -> None:
    async with producing(client, topic, reliable=True) as producer:
        async with consuming(client, topic):
            pass
        for payload in numbered(20):
            await producer.send(payload)
        async with consuming(client, topic) as consumer:
            assert await consumer.take(20) == numbered(20)


async def test_unreliable_messages_do_not_wait_for_their_consumer(
    client: DanubeClient, topic: str, reference: ReferenceBroker
) -> None:
    async with producing(client, topic) as producer:
        async with consuming(client, topic) as consumer:
            await producer.send(b"received")
            assert await consumer.take(1) == [b"received"]  # so its stream is open
        await until_gone(reference, topic)
        await producer.send(b"lost")
        async with consuming(client, topic) as consumer:
            await producer.send(b"received")
            assert await consumer.take(1) == [b"received"]


async def test_unacknowledged_messages_are_redelivered(
    reference: ReferenceBroker, client: DanubeClient, topic: str
) -> None:
    async with producing(client, topic, reliable=True) as producer:
        async with consuming(client, topic) as consumer:
            for payload in numbered(4):
                await producer.send(payload)
            assert await consumer.take(2) == numbered(2)
            assert await consumer.take(2, ack=False) == numbered(4)[2:]
        await until_gone(reference, topic)
        async with consuming(client, topic, name="another") as consumer:
            assert await consumer.take(2) == numbered(4)[2:]
            assert await consumer.nothing()


async def test_a_nacked_message_is_redelivered(client: DanubeClient, topic: str) -> None:
    async with producing(client, topic, reliable=True) as producer, consuming(client, topic) as consumer:
        await producer.send(b"again")
        await consumer.consumer.nack(await consumer.next(), delay_ms=1)
        await consumer.consumer.nack(await consumer.next())
        assert await consumer.take(1) == [b"again"]
        assert await consumer.nothing()


async def until_gone(reference: ReferenceBroker, topic: str) -> None:
    """Wait until the broker has seen that the consumers' streams are closed."""
    async with asyncio.timeout(LONG_S):
        while reference.consumers(topic, "subscription"):  # noqa: ASYNC110, nothing tells when they are
            await asyncio.sleep(0.01)
