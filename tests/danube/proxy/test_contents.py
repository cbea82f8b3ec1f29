"""Policies on what danube-client's messages say, and on who may use a topic, through the gateway."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from danube.proto import DanubeApi_pb2 as pb
from tests.danube.proxy.test_edge import batch, refused, replicate
from tests.danube.support.clients import consuming, danube_client, producing
from tests.danube.support.gates import channel, gate, on_topic

from sluicegate_danube.reference import ReferenceBroker


async def _invalid(attaching: AbstractAsyncContextManager[object]) -> str:
    """The text that a producer or a consumer is refused with as it attaches."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        async with attaching:
            raise AssertionError("was let in")
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    return str(error.value.details())


async def test_a_message_without_a_required_attribute_fails_at_its_producer(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    policies = on_topic(topic, required_headers=["tenant", "trace"])
    async with (
        gate(tmp_path, reference.addresses, policies) as through,
        danube_client(through.url) as client,
        producing(client, topic, reliable=True, max_retries=1) as producer,
    ):
        await producer.send(b"first", {"tenant": "a", "trace": "1"})
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await producer.send(b"second", {"tenant": "a"})
        assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert f"A message for topic {topic} has no header trace." in str(error.value.details())
        await producer.send(b"third", {"tenant": "a", "trace": "3"})
    assert [message.payload for message in reference.messages(topic)] == [b"first", b"third"]


async def test_a_removed_attribute_does_not_reach_the_consumer(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    async with (
        gate(tmp_path, reference.addresses, on_topic(topic, remove_headers="x-*")) as through,
        danube_client(through.url) as client,
        producing(client, topic, reliable=True) as producer,
        consuming(client, topic) as consumer,
    ):
        await producer.send_with_key(b"payload", {"x-secret": "s", "kept": "k"}, "r")
        message = await consumer.next()
        assert (dict(message.attributes), message.payload) == ({"kept": "k"}, b"payload")
        assert message.routing_key == "r"


async def test_only_messages_of_an_allowed_schema_version_pass(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    async with (
        gate(tmp_path, reference.addresses, on_topic(topic, allowed_content=[2, 3])) as through,
        channel(through) as connection,
        danube_client(through.url) as client,
        producing(client, topic, "p", reliable=True) as producer,
    ):
        with pytest.raises(grpc.aio.AioRpcError, match="names no schema"):
            await producer.send(b"no schema")
        send: Any = connection.unary_unary(
            "/danube.ProducerService/SendMessage", request_serializer=pb.StreamMessage.SerializeToString
        )
        (made,) = through.calls.attachments.places.producers
        position = pb.MsgID(producer_id=int(str(made)), topic_name=topic)
        await send(pb.StreamMessage(msg_id=position, payload=b"2", schema_id=9, schema_version=2))
        with pytest.raises(grpc.aio.AioRpcError, match="is written by schema 1"):
            await send(pb.StreamMessage(msg_id=position, payload=b"1", schema_id=2, schema_version=1))
    assert [message.payload for message in reference.messages(topic)] == [b"2"]


async def test_a_batch_of_an_edge_is_read_and_changed_message_by_message(
    reference: ReferenceBroker, tmp_path: Path
) -> None:
    topic = "/edge1/contents"
    policies = on_topic(topic, required_headers="trace", remove_headers="x")
    good = [pb.StreamMessage(payload=b"1", attributes={"trace": "1", "x": "1"}) for _ in range(3)]
    async with gate(tmp_path, reference.addresses, policies) as through, channel(through) as edge:
        await replicate(edge, batch(topic, good, 3))
        code, text = await refused(edge, batch(topic, [*good, pb.StreamMessage(payload=b"2")], 7))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert "has no header trace" in text
    assert [dict(message.attributes) for message in reference.messages(topic)] == [{"trace": "1"}] * 3


async def test_a_read_only_topic_refuses_producers_and_serves_consumers(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    async with (
        danube_client(reference.urls[0]) as direct,
        producing(direct, topic, "before", reliable=True) as before,
        gate(tmp_path, reference.addresses, on_topic(topic, read_only=True)) as through,
        danube_client(through.url) as client,
        consuming(client, topic) as consumer,
    ):
        assert f"Topic {topic} is read-only." in await _invalid(producing(client, topic, max_retries=1))
        await before.send(b"from elsewhere")
        assert await consumer.take(1) == [b"from elsewhere"]


async def test_a_topic_that_becomes_read_only_refuses_messages_of_its_producers(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    async with (
        gate(tmp_path, reference.addresses) as through,
        danube_client(through.url) as client,
        producing(client, topic, reliable=True) as producer,
    ):
        await producer.send(b"first")
        through.change(name=topic, read_only=True)
        with pytest.raises(grpc.aio.AioRpcError, match="is read-only"):
            await producer.send(b"second")


async def test_a_write_only_topic_refuses_consumers_and_takes_messages(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    async with (
        gate(tmp_path, reference.addresses, on_topic(topic, write_only=True)) as through,
        danube_client(through.url) as client,
        producing(client, topic, reliable=True) as producer,
    ):
        assert f"Topic {topic} is write-only." in await _invalid(consuming(client, topic, max_retries=1))
        await producer.send(b"kept")
    assert len(reference.messages(topic)) == 1


@pytest.mark.parametrize(("pattern", "is_let_in"), [("team-*", False), ("*", True)])
async def test_clients_have_no_id_that_a_pattern_could_name(
    reference: ReferenceBroker, topic: str, tmp_path: Path, pattern: str, is_let_in: bool
) -> None:
    policies = on_topic(topic, client_id_pattern=pattern)
    async with (
        danube_client(reference.urls[0]) as direct,
        producing(direct, topic, "before", reliable=True),
        gate(tmp_path, reference.addresses, policies) as through,
        danube_client(through.url) as client,
    ):
        for attaching in (
            producing(client, topic, reliable=True, max_retries=1),
            consuming(client, topic, max_retries=1),
        ):
            if is_let_in:
                async with attaching:
                    pass
            else:
                assert f"Client id (none) may not use topic {topic}." in await _invalid(attaching)
