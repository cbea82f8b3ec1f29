"""Unpoliced calls pass the gateway unchanged."""

import asyncio
from pathlib import Path

import grpc.aio
import pytest
from danube import SchemaType, SubType
from danube.proto import DanubeApi_pb2 as pb
from danube.proto import DanubeApi_pb2_grpc as services
from tests.danube.support.clients import consuming, danube_client, producing
from tests.danube.support.gates import channel, gate
from tests.waiting import LONG_S, until_so

from sluicegate_danube.reference import ReferenceBroker

MIB = 1024 * 1024


@pytest.mark.seed("S1-143")
async def test_messages_published_through_the_gateway_are_consumed_through_it(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    sent = [f"message {number}".encode() for number in range(50)]
    async with (
        gate(tmp_path, reference.addresses) as through,
        danube_client(through.url) as client,
        producing(client, topic, reliable=True) as producer,
        consuming(client, topic) as consumer,
    ):
        for payload in sent:
            await producer.send(payload)
        assert await consumer.take(len(sent)) == sent
        assert through.sink.decisions == []
        assert through.state(topic).allowed_messages == len(sent)
        assert through.state(topic).dispatched_messages == len(sent)


async def test_partitions_are_topics_of_their_own(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    sent = {f"message {number}".encode() for number in range(6)}
    async with (
        gate(tmp_path, reference.addresses) as through,
        danube_client(through.url) as client,
        producing(client, topic, partitions=3, reliable=True) as producer,
        consuming(client, topic, kind=SubType.SHARED) as consumer,
    ):
        for payload in sorted(sent):
            await producer.send(payload)
        assert set(await consumer.take(len(sent))) == sent
        assert [through.state(f"{topic}-part-{n}").allowed_messages for n in range(3)] == [2, 2, 2]


async def test_the_schema_registry_is_reachable(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    async with gate(tmp_path, reference.addresses) as through, danube_client(through.url) as client:
        registry = client.schema()
        schema = b'{"type": "object"}'
        made = registry.register_schema("orders").with_type(SchemaType.JSON_SCHEMA).with_schema_data(schema)
        number = await made.execute()
        found = await registry.get_latest_schema("orders")
        assert (found.schema_id, found.schema_definition) == (number, schema)
        async with producing(client, topic, subject="orders") as producer:
            assert await producer.send(b"{}")


async def test_health_checks_pass(reference: ReferenceBroker, topic: str, tmp_path: Path) -> None:
    async with gate(tmp_path, reference.addresses) as through, channel(through) as to_gate:
        made = await services.ProducerServiceStub(to_gate).CreateProducer(
            pb.ProducerRequest(producer_name="p", topic_name=topic), timeout=LONG_S
        )
        health = services.HealthCheckStub(to_gate)
        statuses = [
            (await health.HealthCheck(pb.HealthCheckRequest(id=number), timeout=LONG_S)).status
            for number in (made.producer_id, made.producer_id + 1)
        ]
    assert statuses == [pb.HealthCheckResponse.OK, pb.HealthCheckResponse.CLOSE]


async def test_large_messages_pass_up_to_what_the_broker_takes(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    largest = 4 * MIB - 1024
    async with (
        gate(tmp_path, reference.addresses) as through,
        danube_client(through.url) as client,
        producing(client, topic, reliable=True) as producer,
        consuming(client, topic) as consumer,
    ):
        payloads = [bytes([number]) * largest for number in range(4)]
        for payload in payloads:
            await producer.send(payload)
        assert await consumer.take(len(payloads)) == payloads
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await producer.send(bytes(5 * MIB))
        assert refused.value.code() is grpc.StatusCode.OUT_OF_RANGE
        await producer.send(b"after it")
        assert await consumer.take(1) == [b"after it"]


async def test_a_thousand_streams_at_once(reference: ReferenceBroker, topic: str, tmp_path: Path) -> None:
    count = 1_000
    async with gate(tmp_path, reference.addresses) as through, channel(through) as to_gate:
        producers = services.ProducerServiceStub(to_gate)
        consumers = services.ConsumerServiceStub(to_gate)
        made = await producers.CreateProducer(
            pb.ProducerRequest(producer_name="p", topic_name=topic, dispatch_strategy=pb.Reliable)
        )

        async def receive(number: int) -> bytes:
            subscribed = await consumers.Subscribe(
                pb.ConsumerRequest(
                    topic_name=topic,
                    consumer_name=f"c{number}",
                    subscription=f"s{number}",
                    subscription_type=pb.ConsumerRequest.Exclusive,
                )
            )
            stream = consumers.ReceiveMessages(pb.ReceiveRequest(consumer_id=subscribed.consumer_id))
            opened.append(number)
            message = await stream.read()
            stream.cancel()
            payload: bytes = message.payload
            return payload

        opened: list[int] = []
        receiving = [asyncio.ensure_future(receive(number)) for number in range(count)]
        await until_so(lambda: len(opened) == count or any(each.done() for each in receiving))
        request = pb.StreamMessage(
            msg_id=pb.MsgID(producer_id=made.producer_id, topic_name=topic), payload=b"to all"
        )
        await producers.SendMessage(request)
        assert await asyncio.gather(*receiving) == [b"to all"] * count


async def test_a_thousand_sends_at_once(reference: ReferenceBroker, topic: str, tmp_path: Path) -> None:
    count = 1_000
    async with gate(tmp_path, reference.addresses) as through, channel(through) as to_gate:
        stub = services.ProducerServiceStub(to_gate)
        made = await stub.CreateProducer(
            pb.ProducerRequest(producer_name="p", topic_name=topic, dispatch_strategy=pb.Reliable)
        )
        position = pb.MsgID(producer_id=made.producer_id, topic_name=topic)
        answers = await asyncio.gather(
            *(
                stub.SendMessage(pb.StreamMessage(request_id=number, msg_id=position, payload=b"x" * 100))
                for number in range(count)
            )
        )
        assert [answer.request_id for answer in answers] == list(range(count))
        assert through.state(topic).allowed_messages == count
    assert len(reference.messages(topic)) == count
