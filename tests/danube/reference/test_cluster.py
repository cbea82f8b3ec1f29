"""Look-ups, several brokers, restarts and moves, as Danube's own client meets them."""

import asyncio

import grpc
import pytest
from danube import DanubeClient
from danube.proto import DanubeApi_pb2 as pb
from tests.danube.support.clients import consuming, danube_client, producing
from tests.waiting import LONG_S

from sluicegate_danube.reference import ReferenceBroker, Settings

LOOKUP = pb.TopicLookupResponse


async def look_up(client: DanubeClient, topic: str, url: str = "") -> pb.TopicLookupResponse:
    return await client.lookup_service.lookup_topic(url or client.uri, topic)


async def test_every_broker_names_the_owner_of_a_topic(
    reference_cluster: ReferenceBroker, topic: str
) -> None:
    one, two = reference_cluster.urls
    reference_cluster.create_topic(topic, owner=1)
    async with danube_client(one) as client:
        for asked, kind in ((one, LOOKUP.Redirect), (two, LOOKUP.Connect)):
            found = await look_up(client, topic, asked)
            assert (found.response_type, found.connect_url, found.broker_url) == (kind, two, two)
            assert not found.proxy
        async with producing(client, topic) as producer, consuming(client, topic) as consumer:
            await producer.send(b"over the other broker")
            assert await consumer.take(1) == [b"over the other broker"]
            assert producer._producers[0].connect_url == two


async def test_the_first_producer_looks_up_again(reference_cluster: ReferenceBroker) -> None:
    """In a cluster the broker that makes a topic is not always the one that serves it."""
    async with danube_client(reference_cluster.urls[0]) as client:
        for name in ("/default/one", "/default/two"):
            async with producing(client, name) as producer:
                await producer.send(b"x")
            assert [message.payload for message in reference_cluster.messages(name)] == [b"x"]
        owners = {topic.owner for topic in reference_cluster.cluster.topics.values()}
        assert owners == {0, 1}


async def test_another_broker_refuses_a_topic(reference_cluster: ReferenceBroker, topic: str) -> None:
    reference_cluster.create_topic(topic, owner=1)
    async with danube_client(reference_cluster.urls[0]) as client:
        producer = client.new_producer().with_topic(topic).with_name("p").build()
        await producer.create()
        low = producer._producers[0]
        low.connect_url = low.broker_addr = reference_cluster.urls[0]
        await low._connect()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await low._try_create()
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await low.send(b"x")
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        await producer.close()


async def test_in_proxy_mode_a_header_names_the_broker(topic: str) -> None:
    async with ReferenceBroker(Settings(proxy=True), brokers=2) as broker:
        broker.create_topic(topic, reliable=True, owner=1)
        async with danube_client(broker.urls[0]) as client:
            found = await look_up(client, topic)
            assert found.proxy
            assert [found.connect_url, found.broker_url] == broker.urls
            async with (
                producing(client, topic, reliable=True) as producer,
                consuming(client, topic) as consumer,
            ):
                await producer.send(b"routed")
                assert await consumer.take(1) == [b"routed"]


async def test_lookups_return_the_configured_urls(topic: str) -> None:
    named = ("http://one:6650", "http://two:6650")
    async with ReferenceBroker(Settings(connect_urls=named), brokers=2) as broker:
        broker.create_topic(topic, owner=1)
        async with danube_client(broker.urls[0]) as client:
            found = await look_up(client, topic)
        assert (found.connect_url, found.broker_url) == (named[1], broker.urls[1])


async def test_a_missing_topic(client: DanubeClient, topic: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="Unable to find") as refused:
        await look_up(client, topic)
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    with pytest.raises(grpc.aio.AioRpcError, match="invalid format") as refused:
        await look_up(client, "no/slash")
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert await client.lookup_service.topic_partitions(client.uri, topic) == []


async def test_clients_resume_after_a_network_failure(
    reference: ReferenceBroker, client: DanubeClient, topic: str
) -> None:
    async with producing(client, topic, reliable=True) as producer, consuming(client, topic) as consumer:
        await producer.send(b"before")
        assert await consumer.take(1) == [b"before"]
        await reference.stop(forget=False)
        sending = asyncio.gather(producer.send(b"while it is gone"))
        await reference.restart()
        await asyncio.wait_for(sending, LONG_S)
        assert await consumer.take(1) == [b"while it is gone"]


async def test_a_restarted_broker_keeps_messages_and_forgets_clients(
    reference: ReferenceBroker, client: DanubeClient, topic: str
) -> None:
    async with producing(client, topic, reliable=True) as producer:
        async with consuming(client, topic):
            await producer.send(b"kept")
        await reference.stop()
        await reference.restart()
        with pytest.raises(grpc.aio.AioRpcError, match="does not exist") as refused:
            await producer.send(b"refused")
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        await producer.create()
        await producer.send(b"sent")
        async with consuming(client, topic) as consumer:
            assert await consumer.take(2) == [b"kept", b"sent"]


async def test_a_broker_stops_alone(reference_cluster: ReferenceBroker) -> None:
    for index, name in enumerate(("/default/zero", "/default/one")):
        reference_cluster.create_topic(name, owner=index)
    async with (
        danube_client(reference_cluster.urls[1]) as client,
        producing(client, "/default/one") as producer,
    ):
        await reference_cluster.stop(0)
        await producer.send(b"goes on")
        assert (await look_up(client, "/default/zero")).connect_url == reference_cluster.urls[0]


async def test_a_topic_that_moves_loses_its_clients(reference_cluster: ReferenceBroker, topic: str) -> None:
    reference_cluster.create_topic(topic, reliable=True, owner=0)
    async with (
        danube_client(reference_cluster.urls[0]) as client,
        producing(client, topic, reliable=True) as producer,
    ):
        async with consuming(client, topic):
            await producer.send(b"kept")
            reference_cluster.move(topic, 1)
            assert reference_cluster.consumers(topic, "subscription") == []
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await producer.send(b"refused")
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        await producer.create()
        async with consuming(client, topic) as consumer:
            assert await consumer.take(1) == [b"kept"]


async def test_health_checks_report_closed_attachments(
    reference: ReferenceBroker, client: DanubeClient, topic: str
) -> None:
    from danube.proto import DanubeApi_pb2_grpc as services

    async with producing(client, topic, reliable=True) as producer, consuming(client, topic) as consumer:
        connection = await client.connection_manager.get_connection(client.uri, client.uri)
        stub = services.HealthCheckStub(connection.channel)
        low = consumer.consumer._consumers[topic]
        asked = [
            pb.HealthCheckRequest(
                client=pb.HealthCheckRequest.Producer, id=producer._producers[0].producer_id
            ),
            pb.HealthCheckRequest(client=pb.HealthCheckRequest.Consumer, id=low.consumer_id),
        ]
        ok, close = pb.HealthCheckResponse.OK, pb.HealthCheckResponse.CLOSE
        assert [(await stub.HealthCheck(each)).status for each in asked] == [ok, ok]
        reference.move(topic, 0)
        assert [(await stub.HealthCheck(each)).status for each in asked] == [close, close]
