"""A restarted worker knows no clients; they continue with their ids."""

from contextlib import AsyncExitStack
from pathlib import Path

import grpc.aio
import pytest
from danube import DanubeClient
from danube.proto import DanubeApi_pb2 as pb
from danube.proto import DanubeApi_pb2_grpc as services
from tests.danube.support.clients import consuming, danube_client, producing
from tests.danube.support.gates import channel, gate, on_topic
from tests.waiting import LONG_S, until_so

from sluicegate.demo.ports import free_ports
from sluicegate_danube.reference import ReferenceBroker


def message(topic: str, producer: int, name: str, size: int = 10) -> pb.StreamMessage:
    position = pb.MsgID(producer_id=producer, topic_name=topic)
    return pb.StreamMessage(msg_id=position, payload=bytes(size), producer_name=name)


@pytest.mark.parametrize("size", [10, 300_000])  # one frame, and many
async def test_a_resumed_and_recreated_producer_counts_once(
    reference: ReferenceBroker, topic: str, tmp_path: Path, size: int
) -> None:
    policies = on_topic(topic, max_producers_per_topic=1)
    create = pb.ProducerRequest(producer_name="p", topic_name=topic)
    async with gate(tmp_path, reference.addresses, policies) as through, channel(through) as before:
        made = await services.ProducerServiceStub(before).CreateProducer(create, timeout=LONG_S)
    async with gate(tmp_path, reference.addresses, policies) as through, channel(through) as after:
        stub = services.ProducerServiceStub(after)
        for _ in range(2):
            await stub.SendMessage(message(topic, made.producer_id, "p", size), timeout=LONG_S)
        assert len(through.state(topic).producers) == 1
        again = await stub.CreateProducer(create, timeout=LONG_S)
        assert again.producer_id == made.producer_id
        await stub.SendMessage(message(topic, made.producer_id, "p"), timeout=LONG_S)
        assert len(through.state(topic).producers) == 1
        other = pb.ProducerRequest(producer_name="q", topic_name=topic)
        with pytest.raises(grpc.aio.AioRpcError, match="Producer limit reached"):
            await stub.CreateProducer(other, timeout=LONG_S)


async def test_an_invented_id_takes_no_place(reference: ReferenceBroker, topic: str, tmp_path: Path) -> None:
    policies = on_topic(topic, max_producers_per_topic=1)
    async with (
        gate(tmp_path, reference.addresses, policies) as through,
        channel(through) as real,
        channel(through) as other,
    ):
        create = pb.ProducerRequest(producer_name="p", topic_name=topic)
        stub, inventing = services.ProducerServiceStub(real), services.ProducerServiceStub(other)
        reference.create_topic(topic)
        for name in ("", "p", "q"):
            with pytest.raises(grpc.aio.AioRpcError) as unknown:
                await inventing.SendMessage(message(topic, 1234, name), timeout=LONG_S)
            assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
            await until_so(lambda: not through.state(topic).producers)
        made = await stub.CreateProducer(create, timeout=LONG_S)
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await inventing.SendMessage(message(topic, 1234, "p"), timeout=LONG_S)
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
        await other.close()
        await stub.SendMessage(message(topic, made.producer_id, "p"), timeout=LONG_S)
        assert len(through.state(topic).producers) == 1


async def test_a_consumer_goes_on_at_a_gateway_that_does_not_know_it(
    reference: ReferenceBroker, client: DanubeClient, topic: str, tmp_path: Path
) -> None:
    """The two share no state: as after a restart, a kill, a take-over, or a move to another gateway."""
    port = free_ports(5)
    same = {"listen": {"port": port}, "node_port_base": port + 1}
    policies = on_topic(topic, max_consumers_per_topic=1, max_unacked_messages_per_consumer=3)
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    async with AsyncExitStack() as stack, producing(client, topic, reliable=True) as producer:
        async with gate(first, reference.addresses, policies, **same) as through:
            consumer_client = await stack.enter_async_context(danube_client(through.url))
            consumer = await stack.enter_async_context(consuming(consumer_client, topic))
            await producer.send(b"before")
            assert await consumer.take(1) == [b"before"]
        async with gate(second, reference.addresses, policies, **same) as through:
            sent = [b"%d" % at for at in range(6)]
            for payload in sent:
                await producer.send(payload)
            assert await consumer.take(len(sent)) == sent
            assert through.state(topic).consumer_count == 1
            assert through.counters()["unknown_ids"] == 1, "its client opens one stream after the other"
            async with channel(through) as other:
                request = pb.ConsumerRequest(topic_name=topic, subscription="other", consumer_name="other")
                with pytest.raises(grpc.aio.AioRpcError, match="Consumer limit"):
                    await services.ConsumerServiceStub(other).Subscribe(request, timeout=LONG_S)
            await stack.aclose()
