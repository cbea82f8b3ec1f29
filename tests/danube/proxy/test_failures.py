"""Brokers that go away: clients come back through the gateway by themselves."""

import asyncio
from pathlib import Path

import grpc.aio
import pytest
from tests.danube.support.clients import Receiving, consuming, danube_client, producing
from tests.danube.support.gates import gate, on_topic
from tests.waiting import LONG_S

from sluicegate.demo.ports import free_ports
from sluicegate_danube.reference import ReferenceBroker


async def _take_until(consumer: Receiving, last: bytes) -> list[bytes]:
    payloads: list[bytes] = []
    async with asyncio.timeout(LONG_S):
        while not payloads or payloads[-1] != last:
            payloads += await consumer.take(1)
    return payloads


@pytest.mark.parametrize("limited", [False, True])
async def test_clients_reconnect_when_their_broker_is_back(
    reference: ReferenceBroker, topic: str, tmp_path: Path, limited: bool
) -> None:
    policies = on_topic(topic, max_dispatch_rate="1k/s", max_producers_per_topic=1) if limited else {}
    async with (
        gate(tmp_path, reference.addresses, policies) as through,
        danube_client(through.url) as client,
        producing(client, topic, reliable=True) as producer,
        consuming(client, topic) as consumer,
    ):
        await producer.send(b"before")
        assert await consumer.take(1) == [b"before"]
        await reference.stop(forget=False)
        sending = asyncio.ensure_future(producer.send(b"meanwhile"))
        await asyncio.sleep(0.2)  # so that the client does try while the broker is away
        await reference.restart()
        await asyncio.wait_for(sending, LONG_S)
        await producer.send(b"after")
        received = await _take_until(consumer, b"after")
        # What was under way may have been stored twice, as without the gateway; nothing is lost.
        assert [payload for payload in (b"meanwhile", b"after") if payload not in received] == []


async def test_not_found_of_a_restarted_broker_reaches_the_client(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    async with (
        gate(tmp_path, reference.addresses, on_topic(topic, max_producers_per_topic=1)) as through,
        danube_client(through.url) as client,
        producing(client, topic, reliable=True) as producer,
    ):
        await producer.send(b"before")
        await reference.stop(forget=True)
        await reference.restart()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await asyncio.wait_for(producer.send(b"to one who forgot"), LONG_S)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        # The application makes its producer again, as Danube's clients ask for: it is the same one.
        await producer.create()
        await producer.send(b"after")
        assert through.state(topic).rejected == 0
    assert [message.payload for message in reference.messages(topic)] == [b"before", b"after"]


async def test_without_a_broker_clients_retry(topic: str, tmp_path: Path) -> None:
    async with ReferenceBroker(port=free_ports(1)) as reference:
        address = reference.addresses[0]
    async with gate(tmp_path, [address]) as through, danube_client(through.url) as client:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            async with producing(client, topic, max_retries=1):
                raise AssertionError("there is no broker")
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert refused.value.details() == "broker danube cannot be reached: connection refused"
        async with (
            ReferenceBroker(port=int(address.rpartition(":")[2])),
            asyncio.timeout(LONG_S),
            producing(client, topic) as producer,
        ):
            await producer.send(b"here it is")
