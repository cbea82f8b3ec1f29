"""A restarted worker knows no clients; they continue with their ids."""

from pathlib import Path

import grpc.aio
import pytest
from danube.proto import DanubeApi_pb2 as pb
from danube.proto import DanubeApi_pb2_grpc as services
from tests.danube.support.gates import channel, gate, on_topic
from tests.waiting import LONG_S, until_so

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
