"""Refusals of the reference broker, as Danube's, and the bounds of its memory."""

import grpc
import pytest
from danube import DanubeClient, SubType
from tests.danube.support.clients import consuming, danube_client, producing

from sluicegate_danube.reference import ReferenceBroker, Settings
from sluicegate_danube.reference.broker_settings import MAX_MESSAGE_BYTES


@pytest.mark.parametrize("size", [MAX_MESSAGE_BYTES, 8 << 20])
async def test_a_message_over_the_size_limit(client: DanubeClient, topic: str, size: int) -> None:
    async with producing(client, topic) as producer:
        with pytest.raises(grpc.aio.AioRpcError, match="too long") as refused:
            await producer.send(bytes(size))
        assert refused.value.code() is grpc.StatusCode.OUT_OF_RANGE


async def test_a_message_of_the_largest_size(
    reference: ReferenceBroker, client: DanubeClient, topic: str
) -> None:
    async with producing(client, topic) as producer:
        await producer.send(bytes(MAX_MESSAGE_BYTES - 150))
        assert MAX_MESSAGE_BYTES - 100 < reference.messages(topic)[0].ByteSize() <= MAX_MESSAGE_BYTES


async def test_a_producer_that_wants_another_strategy(client: DanubeClient, topic: str) -> None:
    async with producing(client, topic, reliable=True):
        with pytest.raises(grpc.aio.AioRpcError, match="strategy") as refused:
            async with producing(client, topic, "other"):
                pass
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_subscription_without_a_topic(client: DanubeClient, topic: str) -> None:
    consumer = client.new_consumer().with_topic(topic).with_consumer_name("c").with_subscription("s").build()
    with pytest.raises(Exception, match="no partitions found"):
        await consumer.subscribe()


async def test_a_subscription_of_an_unknown_type(client: DanubeClient, topic: str) -> None:
    async with producing(client, topic):
        consumer = client.new_consumer().with_topic(topic).with_consumer_name("c").with_subscription("s")
        made = consumer.with_subscription_type(7).build()  # type: ignore[arg-type, unused-ignore]
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await made.subscribe()
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_an_ack_without_a_subscription(client: DanubeClient, topic: str) -> None:
    async with producing(client, topic, reliable=True) as producer, consuming(client, topic) as consumer:
        await producer.send(b"x")
        message = await consumer.next()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await consumer.consumer._consumers[topic].send_ack(1, message.msg_id, "nobody")
        assert refused.value.code() is grpc.StatusCode.INTERNAL


@pytest.mark.parametrize(
    ("settings", "producers", "text"),
    [
        (Settings(max_topics=1), [("/default/a", "p"), ("/default/b", "p")], "room for 1 topics"),
        (Settings(max_attachments=1), [("/default/a", "p"), ("/default/a", "q")], "room for 1 producers"),
    ],
)
async def test_attachments_are_bounded(
    settings: Settings, producers: list[tuple[str, str]], text: str
) -> None:
    async with ReferenceBroker(settings) as broker, danube_client(broker.urls[0]) as client:
        (first, second) = producers
        async with producing(client, *first):
            for _ in range(3):
                async with producing(client, *first):
                    pass
            with pytest.raises(grpc.aio.AioRpcError, match=text):
                async with producing(client, *second, max_retries=1):
                    pass


@pytest.mark.parametrize(
    ("second", "text"),
    [(("a", "other"), "room for 1 consumers"), (("b", "consumer"), "room for 1 subscriptions")],
)
async def test_consumers_are_bounded(topic: str, second: tuple[str, str], text: str) -> None:
    async with (
        ReferenceBroker(Settings(max_attachments=1)) as broker,
        danube_client(broker.urls[0]) as client,
        producing(client, topic),
        consuming(client, topic, "a", kind=SubType.SHARED),
    ):
        with pytest.raises(grpc.aio.AioRpcError, match=text):
            async with consuming(client, topic, *second, kind=SubType.SHARED, max_retries=1):
                pass


async def test_unconsumed_reliable_messages_fill_the_storage(topic: str) -> None:
    settings = Settings(max_stored_bytes=100_000)
    async with (
        ReferenceBroker(settings) as broker,
        danube_client(broker.urls[0]) as client,
        producing(client, topic, reliable=True, max_retries=1) as producer,
    ):
        async with consuming(client, topic) as consumer:
            for _ in range(30):
                await producer.send(bytes(10_000))  # acknowledged ones make room
                await consumer.take(1)
        for _ in range(9):
            await producer.send(bytes(10_000))
        low = producer._producers[0]
        with pytest.raises(grpc.aio.AioRpcError, match="no room for messages") as refused:
            await low.send(bytes(10_000))
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        async with consuming(client, topic) as consumer:
            await consumer.take(9)
        await low.send(bytes(10_000))


async def test_unreliable_messages_are_kept_while_there_is_room(topic: str) -> None:
    settings = Settings(max_stored_bytes=100_000)
    async with (
        ReferenceBroker(settings) as broker,
        danube_client(broker.urls[0]) as client,
        producing(client, topic) as producer,
        producing(client, f"{topic}_2") as another,
    ):
        for number in range(30):
            await producer.send(bytes([number]) * 10_000)
        await another.send(b"there is room for this")
        kept = broker.messages(topic)
        assert 5 < len(kept) < 10
        assert [message.payload[0] for message in kept] == list(range(30 - len(kept), 30))
        assert len(broker.messages(f"{topic}_2")) == 1
