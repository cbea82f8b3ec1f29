"""A broker dies behind the gateway: lookups, counts, policies and limits, with Danube's own client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from danube import DanubeClient, SubType
from danube.proto import DanubeApi_pb2 as pb
from danube.proto import DanubeApi_pb2_grpc as services
from danube.topic_producer import TopicProducer
from tests.danube.support.clients import consuming, danube_client, producing
from tests.danube.support.gates import gate, on_topic
from tests.danube.support.stored import A, B, assign, die, orphan, provide, stored_brokers
from tests.waiting import until_answered, until_so

from sluicegate.model import Action, OperationKind
from sluicegate.store.metadata import MemoryMetadata
from sluicegate_danube.failover import keys
from sluicegate_danube.reference.stored import StoredBroker


@pytest.fixture
async def store() -> AsyncIterator[MemoryMetadata]:
    made = MemoryMetadata()
    yield made
    await made.close()


@pytest.fixture
async def brokers(store: MemoryMetadata) -> AsyncIterator[dict[int, StoredBroker]]:
    async with stored_brokers(store, A, B) as made:
        yield made


def addresses(brokers: dict[int, StoredBroker]) -> list[str]:
    return [broker.address for broker in brokers.values()]


async def fail_over(store: MemoryMetadata, topic: str, brokers: dict[int, StoredBroker]) -> None:
    """A dies, and B gets its topic."""
    await die(store, brokers[A])
    await orphan(store, topic, A)
    await assign(store, topic, brokers[B])


async def notice(client: DanubeClient, url: str, topic: str) -> None:
    """Return once a client knows that its connection to a dead broker is gone: it does not look up again."""
    await until_answered(lambda: client.lookup_service.lookup_topic(url, topic), _is_unavailable)


def _is_unavailable(error: Exception) -> bool:
    return isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.UNAVAILABLE


async def hang(store: MemoryMetadata, topic: str, brokers: dict[int, StoredBroker]) -> None:
    """B gets a topic of A's, and A does not notice: its connections stay open."""
    for task in brokers[A]._tasks:
        task.cancel()
    await orphan(store, topic, A)
    await assign(store, topic, brokers[B])


@pytest.mark.seed("S3-018")
async def test_a_client_resumes_at_the_new_owner(
    tmp_path: Path, store: MemoryMetadata, brokers: dict[int, StoredBroker], topic: str
) -> None:
    await provide(store, topic, brokers[A])
    async with gate(tmp_path, addresses(brokers), on_topic(topic, max_producers_per_topic=1)) as by:
        async with danube_client(by.url) as client:
            async with producing(client, topic) as producer, consuming(client, topic) as consumer:
                await producer.send(b"before")
                assert await consumer.take(1) == [b"before"]
            assert by.state(topic).producers
            await fail_over(store, topic, brokers)
            await notice(client, by.url, topic)
            # the same client: all that it knows is the port of a broker that is dead
            async with producing(client, topic, "another") as producer, consuming(client, topic) as consumer:
                await producer.send(b"after")
                assert await consumer.take(1) == [b"after"]
                assert len(by.state(topic).producers) == 1
                low = producer._producers[0]
                found = await client.lookup_service.lookup_topic(by.url, topic)
                assert low.connect_url == found.connect_url != brokers[B].url
        assert by.counters()["owner_changed"] == 1


@pytest.mark.seed("S3-018")
async def test_the_decision_log_records_the_new_owner(
    tmp_path: Path, store: MemoryMetadata, brokers: dict[int, StoredBroker], topic: str
) -> None:
    await provide(store, topic, brokers[A])
    async with gate(tmp_path, addresses(brokers)) as by, danube_client(by.url) as client:
        for _ in range(2):
            await client.lookup_service.lookup_topic(by.url, topic)
        await fail_over(store, topic, brokers)
        await notice(client, by.url, topic)
        await client.lookup_service.lookup_topic(by.url, topic)
    kinds = OperationKind.OWNER_CHANGED
    rows = [row for row in by.sink.records if row.op.kind is kinds]
    assert [(row.op.topic, row.op.client) for row in rows] == [
        (topic, f"{brokers[A].address} -> {brokers[B].address}")
    ]
    assert rows[0].decision is not None
    assert rows[0].decision.action is Action.ALLOW


@pytest.mark.seed("S3-018", "S3-019")
async def test_ghosts_at_the_old_owner_do_not_count(
    tmp_path: Path, store: MemoryMetadata, brokers: dict[int, StoredBroker], topic: str
) -> None:
    await provide(store, topic, brokers[A])
    policies = on_topic(
        topic, max_producers_per_topic=1, max_consumers_per_topic=1, max_consumers_per_subscription=1
    )
    async with AsyncExitStack() as stack:
        told = list(reversed(addresses(brokers)))  # who asks for the owner asks a broker that knows
        by = await stack.enter_async_context(gate(tmp_path, told, policies))
        ghost = await stack.enter_async_context(danube_client(by.url))
        await stack.enter_async_context(producing(ghost, topic, "ghost"))
        await stack.enter_async_context(consuming(ghost, topic, name="ghost", kind=SubType.SHARED))
        await hang(store, topic, brokers)
        client = await stack.enter_async_context(danube_client(by.url))
        again = await stack.enter_async_context(producing(client, topic, "again"))
        other = await stack.enter_async_context(consuming(client, topic, name="again", kind=SubType.SHARED))
        await again.send(b"x")
        assert await other.take(1) == [b"x"]
        assert by.counters()["released_at_old_owner"] == 2
        with pytest.raises(grpc.aio.AioRpcError) as full:  # the limits hold on, with those who are there
            async with producing(client, topic, "one too many", max_retries=1):
                pass
        assert full.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.seed("S3-018")
async def test_limiters_keep_their_state(
    tmp_path: Path, store: MemoryMetadata, brokers: dict[int, StoredBroker], topic: str
) -> None:
    """A bucket is not filled by a failover, nor are policies lost."""
    await provide(store, topic, brokers[A])
    policies = on_topic(topic, max_publish_rate_bytes=1, max_message_size=100_000)
    async with gate(tmp_path, addresses(brokers), policies) as by, danube_client(by.url) as client:
        async with producing(client, topic, max_retries=1) as producer:
            await producer.send(bytes(100_000))  # takes what the bucket has, and what it gets in a day
        before = by.state(topic)
        await fail_over(store, topic, brokers)
        async with producing(client, topic, "another") as producer:
            low = producer._producers[0]
            with pytest.raises(grpc.aio.AioRpcError) as limited:
                await low.send(b"x")
            assert limited.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            with pytest.raises(grpc.aio.AioRpcError) as large:
                await low.send(bytes(100_001))
            assert large.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert by.state(topic) is before


async def test_without_resuming_a_producer_is_unknown_at_the_new_owner(
    tmp_path: Path, store: MemoryMetadata, brokers: dict[int, StoredBroker], topic: str
) -> None:
    await provide(store, topic, brokers[A])
    async with (
        gate(tmp_path, addresses(brokers)) as by,
        danube_client(by.url) as client,
        producing(client, topic) as producer,
    ):
        await producer.send(b"before")
        await fail_over(store, topic, brokers)
        low = producer._producers[0]
        await notice(client, low.connect_url, topic)
        await low._lookup_new_broker()
        await low._connect()
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await low.send(b"x")
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
        await low.create()
        await producer.send(b"after")
        assert [m.payload for m in brokers[B].cluster.topics[topic].log.messages()] == [b"after"]


async def test_clients_return_to_a_restarted_broker(
    tmp_path: Path, store: MemoryMetadata, brokers: dict[int, StoredBroker], topic: str
) -> None:
    """While it is dead others answer at its port; a connection to one of them does not last."""
    await provide(store, topic, brokers[A])
    port = int(brokers[A].address.rpartition(":")[2])
    async with gate(tmp_path, addresses(brokers)) as by, danube_client(by.url) as client:
        async with producing(client, topic) as producer:
            await producer.send(b"before")
            own_port = producer._producers[0].connect_url
        await fail_over(store, topic, brokers)
        await notice(client, own_port, topic)
        assert by.counters()["stood_in"] >= 1
        async with StoredBroker(store.another(), A, port=port) as again:
            await orphan(store, topic, B)
            await assign(store, topic, again)
            await until_so(lambda: brokers[B].view.owner(topic) == A)
            async with producing(client, topic, "another", max_retries=50) as producer:
                assert producer._producers[0].connect_url == own_port
                await producer.send(b"after")
            assert [m.payload for m in again.cluster.topics[topic].log.messages()] == [b"after"]


@pytest.mark.seed("S3-013")
async def test_an_unchanged_producer_resumes(
    tmp_path: Path, store: MemoryMetadata, brokers: dict[int, StoredBroker], topic: str
) -> None:
    """It retries what it is told to, and never learns of its new id."""
    await provide(store, topic, brokers[A])
    entry: dict[str, Any] = {"resume_producers": True}
    policies = on_topic(topic, max_producers_per_topic=1)
    async with (
        gate(tmp_path, addresses(brokers), policies, **entry) as by,
        danube_client(by.url) as client,
        producing(client, topic) as producer,
    ):
        low = producer._producers[0]
        await producer.send(b"before")
        known = low.producer_id
        await fail_over(store, topic, brokers)
        for number in range(20):
            await producer.send(b"after %d" % number, {"key": "x" * (100 * number)})
        assert low.producer_id == known
        messages = brokers[B].cluster.topics[topic].log.messages()
        assert [m.payload for m in messages] == [b"after %d" % number for number in range(20)]
        assert messages[19].attributes == {"key": "x" * 1900}
        assert {m.msg_id.producer_id for m in messages} == set(
            brokers[B].cluster.topics[topic].producers.values()
        )
        assert by.counters()["producers_resumed"] == 1
        assert len(by.state(topic).producers) == 1
        await check_health(client, low)


@pytest.mark.parametrize("owner_lives", [True, False])
async def test_a_silent_producer_keeps_its_only_place_or_is_refused(
    tmp_path: Path, store: MemoryMetadata, brokers: dict[int, StoredBroker], topic: str, owner_lives: bool
) -> None:
    """It is kept while the connection lives; what comes back too late is raised at once, not retried."""
    await provide(store, topic, brokers[A])
    policies = on_topic(topic, max_producers_per_topic=1)
    async with AsyncExitStack() as stack:
        entry: dict[str, Any] = {"resume_producers": True}
        by = await stack.enter_async_context(gate(tmp_path, addresses(brokers), policies, **entry))
        client = await stack.enter_async_context(danube_client(by.url))
        silent = await stack.enter_async_context(producing(client, topic, "silent"))
        await silent.send(b"before")
        if owner_lives:
            await orphan(store, topic, A)
            await assign(store, topic, brokers[B])
        else:
            await fail_over(store, topic, brokers)
            await until_so(lambda: not by.state(topic).producers)  # the connection ends with the broker
        other = await stack.enter_async_context(danube_client(by.url))
        await other.lookup_service.lookup_topic(by.url, topic)
        assert by.counters()["owner_changed"] == 1
        if owner_lives:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stack.enter_async_context(producing(other, topic, "other", max_retries=0))
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            await silent.send(b"after")
        else:
            await stack.enter_async_context(producing(other, topic, "other"))
            late = await told(silent._producers[0])
            while late.code() is grpc.StatusCode.UNAVAILABLE:
                late = await told(silent._producers[0])
            assert late.code() is grpc.StatusCode.NOT_FOUND


async def check_health(client: DanubeClient, low: TopicProducer) -> None:
    """The new owner knows a producer by its old id, through the gateway."""
    connection = await client.connection_manager.get_connection(low.broker_addr, low.connect_url)
    request = pb.HealthCheckRequest(client=pb.HealthCheckRequest.Producer, id=low.producer_id)
    answer = await services.HealthCheckStub(connection.channel).HealthCheck(request)
    assert answer.status == pb.HealthCheckResponse.OK


async def test_a_producer_of_a_reliable_topic_resumes_after_a_gateway_restart(
    tmp_path: Path, store: MemoryMetadata, brokers: dict[int, StoredBroker], topic: str
) -> None:
    """The gateway knows it by its own word alone, until the broker says that it does not know it."""
    await provide(store, topic, brokers[A], reliable=True)
    async with AsyncExitStack() as stack:
        by = await stack.enter_async_context(gate(tmp_path, addresses(brokers), resume_producers=True))
        client = await stack.enter_async_context(danube_client(by.url))
        producer = await stack.enter_async_context(producing(client, topic, reliable=True))
        await producer.send(b"before")
        by.calls._places.__init__(100)  # type: ignore[misc]  # as a new process begins
        await fail_over(store, topic, brokers)
        await producer.send(b"after")
        assert [m.payload for m in brokers[B].cluster.topics[topic].log.messages()] == [b"after"]


async def test_a_deleted_topic_is_not_created_again(
    tmp_path: Path, store: MemoryMetadata, brokers: dict[int, StoredBroker], topic: str
) -> None:
    await provide(store, topic, brokers[A])
    async with (
        gate(tmp_path, addresses(brokers), resume_producers=True) as by,
        danube_client(by.url) as client,
        producing(client, topic) as producer,
    ):
        await producer.send(b"before")
        for prefix in (keys.topic_key(topic), keys.assignment_key(A, topic)):
            for entry in (await store.list(prefix)).entries:
                await store.delete(entry.key)
        await until_so(lambda: not any(broker.view.knows(topic) for broker in brokers.values()))
        await until_so(lambda: topic not in brokers[A].cluster.topics)
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await producer._producers[0].send(b"x")
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
        assert await store.get(keys.unassigned_key(topic)) is None


async def test_a_producer_waits_for_the_new_owner(
    tmp_path: Path, store: MemoryMetadata, brokers: dict[int, StoredBroker], topic: str
) -> None:
    """Other calls of its connection do not; after `max_hold` it is told to try again."""
    await provide(store, topic, brokers[A])
    entry: dict[str, Any] = {"resume_producers": True, "max_hold": "300ms"}
    async with (
        gate(tmp_path, addresses(brokers), **entry) as by,
        danube_client(by.url) as client,
        producing(client, topic) as producer,
    ):
        low = producer._producers[0]
        await producer.send(b"before")
        await die(store, brokers[A])
        await orphan(store, topic, A)
        refused = await told(low)
        while refused.code() is not grpc.StatusCode.UNAVAILABLE or "no owner yet" not in str(refused):
            refused = await told(low)
        await assign(store, topic, brokers[B])
        await producer.send(b"after")
        assert [m.payload for m in brokers[B].cluster.topics[topic].log.messages()] == [b"after"]


async def told(low: TopicProducer) -> grpc.aio.AioRpcError:
    """What a message is refused with."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await low.send(b"x")
    return refused.value


async def test_no_acknowledged_message_is_lost_or_doubled(
    tmp_path: Path, store: MemoryMetadata, brokers: dict[int, StoredBroker], topic: str
) -> None:
    """A producer goes on all the while, each message once; what is told as failed was not taken."""
    await provide(store, topic, brokers[A])
    acknowledged: list[int] = []
    moved = asyncio.Event()

    async def publish(low: TopicProducer) -> None:
        number = after = 0
        while after < 50:
            number += 1
            try:
                await low.send(b"%d" % number)
            except grpc.aio.AioRpcError as error:
                # A broker that stops cancels what it is at, as it does to clients that come to it directly.
                stopped = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
                assert error.code() in stopped  # noqa: PT017 - any number of them
            else:
                acknowledged.append(number)
                after += moved.is_set()

    async with (
        gate(tmp_path, addresses(brokers), resume_producers=True) as by,
        danube_client(by.url) as client,
        producing(client, topic) as producer,
    ):
        sending = asyncio.ensure_future(publish(producer._producers[0]))
        await until_so(lambda: len(acknowledged) > 20)
        await fail_over(store, topic, brokers)
        moved.set()
        await sending
        taken = [int(m.payload) for m in brokers[B].cluster.topics[topic].log.messages()]
        assert taken == [number for number in acknowledged if number >= taken[0]]
        assert len(taken) >= 50
