"""Policies on danube-client's traffic through the gateway."""

import asyncio
import time
from pathlib import Path

import grpc.aio
import pytest
from danube import DispatchStrategy, SubType
from danube.proto import DanubeApi_pb2 as pb
from danube.proto import DanubeApi_pb2_grpc as services
from danube.topic_producer import TopicProducer
from tests.danube.support.clients import consuming, danube_client, producing
from tests.danube.support.gates import Gate, channel, gate, on_topic
from tests.waiting import LONG_S, until_so

from sluicegate.demo.law import Admitted, Limit
from sluicegate.model import Action, OperationKind
from sluicegate_danube.reference import ReferenceBroker


@pytest.mark.seed("S1-031", "S1-123")
async def test_a_producer_over_the_limit_is_admitted_when_a_connection_ends(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    policies = on_topic(topic, max_producers_per_topic=1)
    async with gate(tmp_path, reference.addresses, policies) as through:
        # Clients of one process share a connection, so the first must not be danube-client to go alone.
        async with channel(through) as first, danube_client(through.url) as second:
            stub = services.ProducerServiceStub(first)
            made = await stub.CreateProducer(pb.ProducerRequest(producer_name="first", topic_name=topic))
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                async with producing(second, topic, "second", max_retries=1):
                    raise AssertionError("was let in")
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "Current: 1, Limit: 1" in str(refused.value.details())
            position = pb.MsgID(producer_id=made.producer_id, topic_name=topic)
            await stub.SendMessage(pb.StreamMessage(msg_id=position, payload=b"still there"))
        await until_so(lambda: not through.state(topic).producers)
        async with danube_client(through.url) as second, producing(second, topic, "second") as producer:
            await producer.send(b"in its place")
    assert reference.producers(topic) == ["first", "second"]


@pytest.mark.seed("S1-034")
async def test_subscriptions_created_at_the_broker_are_known(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    async with (
        danube_client(reference.urls[0]) as direct,
        producing(direct, topic, reliable=True) as producer,
        consuming(direct, topic, "made before", "c0", kind=SubType.SHARED),
        gate(tmp_path, reference.addresses, on_topic(topic, max_subscriptions_per_topic=1)) as through,
        danube_client(through.url) as client,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            async with consuming(client, topic, "another", "c1", max_retries=1):
                raise AssertionError("was let in")
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        async with consuming(client, topic, "made before", "c1", kind=SubType.SHARED) as consumer:
            await producer.send(b"one of the two gets it")
            await producer.send(b"the other gets it")
            assert len(await consumer.take(1)) == 1


@pytest.mark.seed("S1-039")
@pytest.mark.parametrize(
    "policies",
    [{}, {"max_consumers_per_subscription": 5, "max_consumers_per_topic": 5}],
    ids=["none", "roomy"],
)
async def test_an_exclusive_subscription_keeps_its_own_rule_of_one_consumer(
    reference: ReferenceBroker, topic: str, tmp_path: Path, policies: dict[str, int]
) -> None:
    async with (
        gate(tmp_path, reference.addresses, on_topic(topic, **policies)) as through,
        danube_client(through.url) as client,
        producing(client, topic, reliable=True) as producer,
    ):
        async with consuming(client, topic, "s", "first") as first:
            for _ in range(2):
                with pytest.raises(grpc.aio.AioRpcError, match="Exclusive") as refused:
                    async with consuming(client, topic, "s", "second", max_retries=1):
                        raise AssertionError("was let in")
                assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert through.state(topic).consumer_count == 1
            await producer.send(b"for the first")
            assert await first.take(1) == [b"for the first"]
        await until_so(lambda: not through.state(topic).consumer_count)
        async with consuming(client, topic, "s", "second") as second:
            await producer.send(b"for the second")
            assert await second.take(1) == [b"for the second"]


@pytest.mark.seed("S1-039")
async def test_the_policy_is_checked_before_the_rule_of_an_exclusive_subscription(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    async with (
        gate(tmp_path, reference.addresses, on_topic(topic, max_consumers_per_subscription=1)) as through,
        danube_client(through.url) as client,
        producing(client, topic),
        consuming(client, topic, "s", "first"),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            async with consuming(client, topic, "s", "second", max_retries=1):
                raise AssertionError("was let in")
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert reference.consumers(topic, "s") == ["first"]


@pytest.mark.seed("S1-102")
@pytest.mark.parametrize(("on_unknown", "refused"), [("pause", True), ("open", False), ("last", False)])
async def test_subscriptions_that_cannot_be_listed(
    reference: ReferenceBroker, topic: str, tmp_path: Path, on_unknown: str, refused: bool
) -> None:
    reference.create_topic(topic)
    policies = on_topic(
        topic, max_subscriptions_per_topic=1, on_unknown={"max_subscriptions_per_topic": on_unknown}
    )
    async with (
        gate(
            tmp_path, reference.addresses, policies, admin={"url": "http://127.0.0.1:1"}, max_hold="100ms"
        ) as through,
        danube_client(through.url) as client,
    ):
        if not refused:
            async with consuming(client, topic):
                assert reference.consumers(topic, "subscription") == ["consumer"]
            return
        with pytest.raises(grpc.aio.AioRpcError) as error:
            async with consuming(client, topic):
                raise AssertionError("was let in")
        assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "Subscription limit cannot be checked" in str(error.value.details())


@pytest.mark.seed("S1-062")
async def test_the_client_retries_publishes_over_the_rate(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    sent = [f"{number:03}".encode().ljust(1000) for number in range(3)]
    policies = on_topic(topic, max_publish_rate_bytes="1B/s", burst_seconds=1000)
    async with (
        gate(tmp_path, reference.addresses, policies) as through,
        danube_client(through.url) as client,
        producing(client, topic, reliable=True) as producer,
    ):
        await producer.send(sent[0])
        sending = asyncio.ensure_future(producer.send(sent[1]))
        await until_so(lambda: through.state(topic).rejected)
        through.change(name=topic)
        await sending
        await producer.send(sent[2])
        refused = [decision for decision in through.sink.decisions if decision.action is Action.REJECT]
        assert through.state(topic).rejected == len(refused) > 0
    assert [message.payload for message in reference.messages(topic)] == sent


def assert_law(through: Gate, kind: OperationKind, limit: Limit, count: int) -> None:
    """All that passed keeps to a limit in every window, by the gateway's own clock."""
    passed = [
        Admitted(each.now_ns / 1e9, each.op.messages)
        for each in through.sink.records
        if each.op.kind is kind and each.decision is None
    ]
    assert sum(each.amount for each in passed) == count
    assert limit.surplus(passed) <= 0


@pytest.mark.seed("S1-060")
async def test_delayed_publishes_keep_their_order_and_all_arrive(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    """Calls side by side have no order of their own: what counts is how they come to the gateway."""
    policies = on_topic(topic, max_publish_rate="50/s", on_limit={"max_publish_rate": "delay"})
    sizes = range(1, 71)
    async with (
        gate(tmp_path, reference.addresses, policies) as through,
        danube_client(through.url) as client,
    ):
        producer = TopicProducer(client, topic, "p", None, DispatchStrategy.RELIABLE, 0, 0, 0)
        await producer.create()
        sending = []
        for size in sizes:
            sending.append(asyncio.ensure_future(producer.send(b"x" * size)))
            await asyncio.sleep(0)
        await asyncio.gather(*sending)
        assert through.state(topic).rejected == 0
        assert_law(through, OperationKind.PUBLISH, Limit(50, 50), len(sizes))
        producer.stop()
    published = [each for each in through.sink.records if each.op.kind is OperationKind.PUBLISH]
    came = dict.fromkeys(each.op.bytes for each in published)
    assert [each.op.bytes for each in published if each.decision is None] == list(came)
    assert sorted(len(message.payload) for message in reference.messages(topic)) == list(sizes)


@pytest.mark.seed("S1-071", "S1-076", "S1-124")
@pytest.mark.parametrize(
    "policies",
    [
        {"max_dispatch_rate": "100/s", "burst_seconds": 0.1},
        {"max_dispatch_rate_bytes": "10kB/s", "burst_seconds": 0.1},
        {"max_subscription_dispatch_rate": "100/s", "burst_seconds": 0.1},
        {"max_unacked_messages_per_consumer": 7},
        {"fixed_delivery_delay": "300ms"},
        {
            "max_dispatch_rate": "200/s",
            "max_unacked_messages_per_consumer": 3,
            "fixed_delivery_delay": "50ms",
        },
    ],
    ids=lambda policies: "+".join(policies),
)
async def test_reliable_messages_all_arrive_in_order_under_any_limit(
    reference: ReferenceBroker, topic: str, tmp_path: Path, policies: dict[str, object]
) -> None:
    sent = [f"{number:03}".encode().ljust(100) for number in range(80)]
    async with (
        gate(tmp_path, reference.addresses, on_topic(topic, **policies)) as through,
        danube_client(through.url) as client,
        producing(client, topic, reliable=True) as producer,
        consuming(client, topic) as consumer,
    ):
        for payload in sent:
            await producer.send(payload)
        assert await consumer.take(len(sent)) == sent
        assert await consumer.nothing()
        assert through.state(topic).dispatched_messages == len(sent)
        assert through.state(topic).dropped == 0
        if rate := policies.get("max_dispatch_rate") or policies.get("max_subscription_dispatch_rate"):
            per_s = float(str(rate).removesuffix("/s"))
            burst_s = float(str(policies.get("burst_seconds", 1)))
            assert_law(through, OperationKind.DISPATCH, Limit(per_s, per_s * burst_s), len(sent))


async def test_a_fixed_delay_is_never_early_and_keeps_the_order(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    delay_ms = 700
    async with (
        gate(tmp_path, reference.addresses, on_topic(topic, fixed_delivery_delay=delay_ms)) as through,
        danube_client(through.url) as client,
        producing(client, topic, reliable=True) as producer,
        consuming(client, topic) as consumer,
    ):

        async def publish() -> None:
            for number in range(20):
                await producer.send(f"{number:02}".encode())
                await asyncio.sleep(0.02)

        publishing = asyncio.ensure_future(publish())
        payloads = []
        for _ in range(20):
            message = await consumer.next()
            assert time.time_ns() / 1e6 - message.publish_time >= delay_ms
            payloads.append(message.payload)
            await consumer.consumer.ack(message)
        await publishing
    assert payloads == [f"{number:02}".encode() for number in range(20)]


async def test_a_consumer_that_does_not_read_holds_up_no_other_on_its_connection(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    count, size = 150, 64 * 1024
    async with (
        gate(tmp_path, reference.addresses, on_topic(topic, max_dispatch_rate="100k/s")) as through,
        danube_client(through.url) as client,
        producing(client, topic, reliable=True) as producer,
        consuming(client, topic, "slow", "slow") as slow,
        consuming(client, topic, "fast", "fast") as fast,
    ):
        # danube-client takes 100 messages without being asked for them; then it no longer reads the stream.
        for number in range(count):
            await producer.send(number.to_bytes(2, "big").ljust(size, b"."))
        for payloads in (await fast.take(count), await slow.take(count)):
            assert [int.from_bytes(payload[:2], "big") for payload in payloads] == list(range(count))


@pytest.mark.seed("S1-024", "S1-125")
async def test_policies_change_under_load(reference: ReferenceBroker, topic: str, tmp_path: Path) -> None:
    async with (
        gate(tmp_path, reference.addresses, on_topic(topic, max_message_size="1KiB")) as through,
        danube_client(through.url) as client,
        producing(client, topic, reliable=True) as producer,
        consuming(client, topic) as consumer,
    ):
        ended = asyncio.Event()
        sent = 0

        async def publish() -> None:
            nonlocal sent
            while not ended.is_set():
                await producer.send(f"{sent:06}".encode())
                sent += 1

        publishing = asyncio.ensure_future(publish())
        large = b"x" * 2048
        for limit, passes in (("4KiB", True), ("1KiB", False), ("0", True)):
            through.change(name=topic, max_message_size=limit, max_dispatch_rate="10k/s")
            if passes:
                await producer.send(large)
                continue
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await producer.send(large)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        ended.set()
        await publishing
        payloads = await consumer.take(sent + 2)
        assert [payload for payload in payloads if payload != large] == [
            f"{number:06}".encode() for number in range(sent)
        ]
        assert through.state(topic).allowed_messages == sent + 2


async def test_a_health_check_keeps_its_attachment_alive(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    async with gate(tmp_path, reference.addresses) as through, channel(through) as to_gate:
        stub = services.ProducerServiceStub(to_gate)
        made = await stub.CreateProducer(pb.ProducerRequest(producer_name="a", topic_name=topic))
        await stub.CreateProducer(pb.ProducerRequest(producer_name="b", topic_name=topic))
        places = {place.key[2]: place for place in through.calls._places}
        before_ns = {name: place.seen_ns for name, place in places.items()}
        health = pb.HealthCheckRequest(id=made.producer_id)
        await services.HealthCheckStub(to_gate).HealthCheck(health, timeout=LONG_S)
        assert places["a"].seen_ns > before_ns["a"]
        assert places["b"].seen_ns == before_ns["b"]
