"""Edge brokers replicate in batches, on the port for clients: policies hold for them too."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from danube.proto import DanubeApi_pb2 as pb
from tests.danube.support.clients import danube_client, producing
from tests.danube.support.gates import Gate, channel, gate, on_topic
from tests.waiting import LONG_S, until_so

from sluicegate_danube.reference import ReferenceBroker
from sluicegate_danube.reference.edge import SERVICE
from sluicegate_danube.sluicegate_danube_pb2 import ReplicateBatch

TOPIC = "/edge1/telemetry"


def messages(*sizes: int) -> list[pb.StreamMessage]:
    name = "mqtt-gateway"  # what edges write there
    return [pb.StreamMessage(payload=bytes(size), producer_name=name) for size in sizes]


def batch(topic: str, messages: list[pb.StreamMessage], last: int) -> bytes:
    """An encoded ReplicateBatch.

    :param last: the edge's offset of the last message, by which a batch that comes again is known.
    """
    encoded = [message.SerializeToString() for message in messages]
    return ReplicateBatch(topic=topic, messages=encoded, last_offset=last).SerializeToString()


async def replicate(to: grpc.aio.Channel, *batches: bytes) -> list[bytes]:
    """As an edge does: a stream with its batches, whose acknowledgements are awaited."""

    async def requests() -> AsyncIterator[bytes]:
        for each in batches:
            yield each

    method: Any = to.stream_stream(f"/{SERVICE}/ReplicateData")
    return [ack async for ack in method(requests(), timeout=LONG_S)]


async def refused(to: grpc.aio.Channel, *batches: bytes) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await replicate(to, *batches)
    return error.value.code(), str(error.value.details())


def rejected(through: Gate) -> int:
    return through.state(TOPIC).rejected


async def test_batches_within_the_limits_are_replicated_once_and_acknowledged(
    reference: ReferenceBroker, tmp_path: Path
) -> None:
    async with gate(tmp_path, reference.addresses) as through, channel(through) as edge:
        register: Any = edge.unary_unary(f"/{SERVICE}/RegisterEdge")
        heartbeat: Any = edge.unary_unary(f"/{SERVICE}/EdgeHeartbeat")
        assert await register(b"", timeout=LONG_S)
        assert await heartbeat(b"", timeout=LONG_S) == b""
        acks = await replicate(edge, batch(TOPIC, messages(10, 200_000), 2), batch(TOPIC, messages(3), 3))
        assert len(acks) == 2
        assert await replicate(edge, batch(TOPIC, messages(3), 3)) == acks[1:]  # sent again
        stored = [len(message.payload) for message in reference.messages(TOPIC)]
        assert stored == [10, 200_000, 3]
        state = through.state(TOPIC)
        assert (state.allowed_messages, state.allowed_bytes) == (4, 200_016)


async def test_a_batch_with_one_oversized_message_is_refused_whole(
    reference: ReferenceBroker, tmp_path: Path
) -> None:
    policies = on_topic(TOPIC, max_message_size="2KiB")
    async with gate(tmp_path, reference.addresses, policies) as through, channel(through) as edge:
        code, text = await refused(edge, batch(TOPIC, messages(10, 20_000, 10), 3))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert "Current: 20000 bytes" in text
        await replicate(edge, batch(TOPIC, messages(2_048, 2_048), 3))
    assert len(reference.messages(TOPIC)) == 2


async def test_sizes_can_count_whole_messages(reference: ReferenceBroker, tmp_path: Path) -> None:
    policies = on_topic(TOPIC, max_message_size="2KiB")
    async with (
        gate(tmp_path, reference.addresses, policies, size_of="message") as through,
        channel(through) as edge,
        danube_client(through.url) as client,
        producing(client, TOPIC, reliable=True) as producer,
    ):
        whole = messages(2_048)[0].ByteSize()
        code, text = await refused(edge, batch(TOPIC, messages(2_048), 1))
        assert (code, f"Current: {whole} bytes" in text) == (grpc.StatusCode.INVALID_ARGUMENT, True)
        await producer.send(bytes(1_024), attributes={"a": "b" * 500})
        with pytest.raises(grpc.aio.AioRpcError, match="exceeds maximum"):
            await producer.send(bytes(1_024), attributes={"a": "b" * 1_024})


async def test_a_rate_counts_each_message_of_a_batch(reference: ReferenceBroker, tmp_path: Path) -> None:
    policies = on_topic(TOPIC, max_publish_rate="1/s", burst_seconds=100)
    async with gate(tmp_path, reference.addresses, policies) as through, channel(through) as edge:
        await replicate(edge, batch(TOPIC, messages(*[20] * 60), 60))
        code, text = await refused(edge, batch(TOPIC, messages(*[20] * 100), 160))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert text.startswith("Publish rate limit exceeded")
        assert rejected(through) == 1
    assert len(reference.messages(TOPIC)) == 60


async def test_a_delayed_batch_waits_and_is_then_acknowledged(
    reference: ReferenceBroker, tmp_path: Path
) -> None:
    policies = on_topic(
        TOPIC, max_publish_rate="1/s", burst_seconds=100, on_limit={"max_publish_rate": "delay"}
    )
    async with gate(tmp_path, reference.addresses, policies) as through, channel(through) as edge:
        await replicate(edge, batch(TOPIC, messages(*[20] * 100), 100))
        waiting = asyncio.ensure_future(replicate(edge, batch(TOPIC, messages(*[20] * 50), 150)))
        await until_so(lambda: through.state(TOPIC).limiters["max_publish_rate"].waiting)
        through.change(name=TOPIC)
        assert len(await waiting) == 1
    assert len(reference.messages(TOPIC)) == 150


async def test_each_edge_is_a_producer_of_its_topics(reference: ReferenceBroker, tmp_path: Path) -> None:
    policies = on_topic(TOPIC, max_producers_per_topic=1)
    async with (
        gate(tmp_path, reference.addresses, policies) as through,
        channel(through) as edge,
        channel(through) as other,
    ):
        for number in range(1, 4):  # a stream for each batch, as edges do
            await replicate(edge, batch(TOPIC, messages(1), number))
        code, text = await refused(other, batch(TOPIC, messages(1), 4))
        assert (code, text.startswith("Producer limit reached")) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        await replicate(other, batch("/edge2/telemetry", messages(1), 1))
        await edge.close()
        await until_so(lambda: not through.state(TOPIC).producers)
        await replicate(other, batch(TOPIC, messages(1), 4))


async def test_a_batch_without_a_topic_is_refused(reference: ReferenceBroker, tmp_path: Path) -> None:
    async with gate(tmp_path, reference.addresses) as through, channel(through) as edge:
        code, text = await refused(edge, batch("", messages(1), 1))
        assert (code, "names no topic" in text) == (grpc.StatusCode.INVALID_ARGUMENT, True)
