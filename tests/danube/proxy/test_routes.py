"""Several brokers: clients reach every topic through the gateway."""

import asyncio
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from danube import DanubeClient
from danube.proto import DanubeApi_pb2 as pb
from danube.proto import DanubeApi_pb2_grpc as services
from tests.danube.support.clients import consuming, danube_client, producing
from tests.danube.support.gates import channel, gate, on_topic
from tests.waiting import LONG_S

from sluicegate.demo.ports import free_ports
from sluicegate_danube.method_map import BROKER_HEADER
from sluicegate_danube.reference import ReferenceBroker, Settings


def dialled(client: DanubeClient) -> set[str]:
    """The addresses that a client has connected to."""
    return {known.connect_url.removeprefix("http://") for known in client.connection_manager._connections}


@pytest.mark.parametrize("route", ["ports", "metadata"])
async def test_no_client_bypasses_the_gateway(
    reference_cluster: ReferenceBroker, tmp_path: Path, route: str
) -> None:
    topics = ["/default/on-one", "/default/on-two"]
    for owner, topic in enumerate(topics):
        reference_cluster.create_topic(topic, reliable=True, owner=owner)
    policies = {"broker": {"max_message_size": "1KiB"}}
    async with gate(tmp_path, reference_cluster.addresses, policies, route=route) as through:
        for topic in topics:
            async with (
                danube_client(through.url) as client,
                producing(client, topic, reliable=True) as producer,
                consuming(client, topic) as consumer,
            ):
                await producer.send(b"through")
                assert await consumer.take(1) == [b"through"]
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await producer.send(bytes(1025))
                assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
                assert dialled(client) & set(reference_cluster.addresses) == set()
                own = {through.address} if route == "metadata" else None
                assert own is None or dialled(client) == own
            assert through.state(topic).allowed_messages == 1
    for topic in topics:
        assert [message.payload for message in reference_cluster.messages(topic)] == [b"through"]


@pytest.mark.parametrize("route", ["ports", "metadata"])
async def test_clients_follow_a_moved_topic_through_the_gateway(
    reference_cluster: ReferenceBroker, topic: str, tmp_path: Path, route: str
) -> None:
    reference_cluster.create_topic(topic, reliable=True, owner=0)
    policies = on_topic(topic, max_producers_per_topic=1)
    async with (
        gate(tmp_path, reference_cluster.addresses, policies, route=route) as through,
        danube_client(through.url) as client,
        producing(client, topic, reliable=True) as producer,
    ):
        await producer.send(b"before")
        reference_cluster.move(topic, 1)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await producer.send(b"to the former one")
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        await producer.create()
        await producer.send(b"after")
        assert dialled(client) & set(reference_cluster.addresses) == set()
    assert [message.payload for message in reference_cluster.messages(topic)] == [b"before", b"after"]


async def test_brokers_keep_their_ports_over_a_restart(
    reference_cluster: ReferenceBroker, tmp_path: Path
) -> None:
    reference_cluster.create_topic("/default/on-two", owner=1)
    first = free_ports(4)
    entry: dict[str, Any] = {"listen": {"port": first}, "node_port_base": first + 1}
    told = []
    for addresses in (reference_cluster.addresses, reference_cluster.addresses[:1]):
        entry["known_brokers"] = ["127.0.0.1:*"]
        async with gate(tmp_path, addresses, **entry) as through, channel(through) as to_gate:
            lookup = await services.DiscoveryStub(to_gate).TopicLookup(
                pb.TopicLookupRequest(topic="/default/on-two"), timeout=LONG_S
            )
            told.append(lookup.connect_url)
    assert told[0] == f"http://127.0.0.1:{entry['node_port_base'] + 1}"


async def test_a_lookup_that_names_an_unknown_broker_fails(
    reference_cluster: ReferenceBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reference_cluster.create_topic("/default/on-two", owner=1)
    async with (
        gate(tmp_path, reference_cluster.addresses[:1]) as through,
        channel(through) as to_gate,
    ):
        request = pb.TopicLookupRequest(request_id=5, topic="/default/on-two")
        for _ in range(2):
            with pytest.raises(grpc.aio.AioRpcError, match="known_brokers") as refused:
                await services.DiscoveryStub(to_gate).TopicLookup(request, timeout=LONG_S)
            assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert through.counters()["unknown_broker_refused"] == 2
        lines = [record.getMessage() for record in caplog.records if record.name == "sluicegate.danube"]
        assert len(lines) == 1
        assert reference_cluster.addresses[1] in lines[0]


@pytest.mark.parametrize("route", ["ports", "metadata"])
async def test_metadata_that_names_a_forbidden_broker_is_refused_and_nothing_is_dialled(
    reference: ReferenceBroker, topic: str, tmp_path: Path, route: str
) -> None:
    reached = asyncio.Event()

    async def forbidden(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        writer.close()

    server = await asyncio.start_server(forbidden, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with gate(tmp_path, reference.addresses, route=route) as through, channel(through) as to_gate:
        stub = services.ProducerServiceStub(to_gate)
        request = pb.ProducerRequest(producer_name="p", topic_name=topic)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.CreateProducer(
                request, metadata=((BROKER_HEADER, f"http://{host}:{port}"),), timeout=LONG_S
            )
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        # The connection is still good for others.
        await stub.CreateProducer(request, timeout=LONG_S)
    assert not reached.is_set()
    server.close()
    await server.wait_closed()


async def test_brokers_behind_danubes_own_proxy(tmp_path: Path, topic: str) -> None:
    async with ReferenceBroker(Settings(proxy=True), brokers=2) as cluster:
        cluster.create_topic(topic, reliable=True, owner=1)
        async with (
            gate(tmp_path, cluster.addresses) as through,
            danube_client(through.url) as client,
            producing(client, topic, reliable=True) as producer,
            consuming(client, topic) as consumer,
        ):
            await producer.send(b"through both")
            assert await consumer.take(1) == [b"through both"]
            assert dialled(client) & set(cluster.addresses) == set()


async def test_one_client_connection_serves_all_brokers_without_duplicates(
    reference_cluster: ReferenceBroker, tmp_path: Path
) -> None:
    topics = ["/default/on-one", "/default/on-two"]
    names = [((BROKER_HEADER, url),) for url in reference_cluster.urls]
    for owner, topic in enumerate(topics):
        reference_cluster.create_topic(topic, reliable=True, owner=owner)
    async with (
        gate(tmp_path, reference_cluster.addresses, route="metadata") as through,
        channel(through) as to_gate,
    ):
        producers, consumers = services.ProducerServiceStub(to_gate), services.ConsumerServiceStub(to_gate)
        subscribed = await consumers.Subscribe(
            pb.ConsumerRequest(topic_name=topics[0], consumer_name="c", subscription="s"),
            metadata=names[0],
            timeout=LONG_S,
        )
        stream = consumers.ReceiveMessages(
            pb.ReceiveRequest(consumer_id=subscribed.consumer_id), metadata=names[0]
        )
        reading = asyncio.ensure_future(stream.read())
        made = [
            await producers.CreateProducer(
                pb.ProducerRequest(producer_name="p", topic_name=topic, dispatch_strategy=pb.Reliable),
                metadata=name,
                timeout=LONG_S,
            )
            for topic, name in zip(topics, names, strict=True)
        ]

        async def send(number: int) -> None:
            which = number % 2
            position = pb.MsgID(producer_id=made[which].producer_id, topic_name=topics[which])
            message = pb.StreamMessage(msg_id=position, payload=b"%02d" % number)
            await producers.SendMessage(message, metadata=names[which], timeout=LONG_S)

        for number in range(20):  # one by one: gRPC repeats a call once by itself
            await send(number)
        assert through.counters()["sent_to_another_connection"] > 0
        # The stream was opened before any of this, and goes on.
        received = [(await reading).payload] + [(await stream.read()).payload for _ in range(9)]
        stream.cancel()
    for which, topic in enumerate(topics):
        stored = sorted(message.payload for message in reference_cluster.messages(topic))
        assert stored == [b"%02d" % number for number in range(which, 20, 2)]
    assert sorted(received) == [b"%02d" % number for number in range(0, 20, 2)]
