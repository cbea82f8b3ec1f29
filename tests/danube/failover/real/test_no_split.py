"""Split brain: two controllers that want to act, and a broker that was replaced unnoticed."""

import asyncio
from collections import Counter

import grpc.aio
import pytest
from danube.proto import DanubeApi_pb2 as pb
from danube.proto import DanubeApi_pb2_grpc as services
from tests.danube.failover.real.support.watching import (
    Durable,
    channel,
    history,
    moves,
    until_at,
    until_some_key,
)
from tests.danube.failover.real.support.world import World
from tests.danube.support.clients import consuming, danube_client, producing
from tests.waiting import LONG_S

from sluicegate.store.metadata import MetadataStore
from sluicegate_danube.failover import keys
from sluicegate_danube.failover.values import leader_id
from sluicegate_danube.reference.stored import create_topic

_TOPICS = 20
_SENDS = 5


async def leader(store: MetadataStore) -> int | None:
    """The id of the controller that leads."""
    entry = await store.get(keys.LEADER)
    return leader_id(entry.value) if entry is not None else None


@pytest.mark.seed("S3-001", "S3-002", "S3-003", "S3-006")
async def test_two_controllers_race(world: World, store: MetadataStore, topic: str) -> None:
    """The leader is paused as the broker dies, and comes back once the other one has begun."""
    a, b, c = world.brokers
    world.cluster.run_only(a, *world.controllers)
    topics = [f"{topic}-{number}" for number in range(_TOPICS)]
    for each in topics:
        assert await create_topic(store, each)
    for each in topics:
        await until_some_key(store, keys.assignment_key(a.number, each))
    b.start()
    c.start()
    led = await leader(store)
    [old] = [controller for controller in world.controllers if controller.id == led]
    durable = await Durable.of(store)
    old.pause()
    a.kill()
    async with asyncio.timeout(LONG_S):
        while await leader(store) in (led, None):  # noqa: ASYNC110 - another process's doing
            await asyncio.sleep(0.01)
    old.resume()
    for each in topics:
        await until_some_key(store, *(keys.assignment_key(broker.number, each) for broker in (b, c)))
    events = await history(store, durable.revision)
    ways = {each: moves(events, each) for each in topics}
    new = Counter(way[-1] for way in ways.values())
    assert all(way[0] == "-1 +unassigned" and len(way) == 2 for way in ways.values()), ways
    assert new == {"-unassigned +2": _TOPICS // 2, "-unassigned +3": _TOPICS // 2}
    await durable.assert_untouched(store)
    assert await leader(store) != led


@pytest.mark.seed("S3-017")
async def test_a_paused_broker_returns_after_its_lease(
    world: World, store: MetadataStore, topic: str
) -> None:
    """It accepts nothing that another one owns: neither what waited in its sockets nor what comes later."""
    a, b, _ = world.brokers
    world.cluster.run_only(a, *world.controllers)
    assert await create_topic(store, topic)
    await until_at(a.url, topic, a.url)
    b.start()
    revision = (await Durable.of(store)).revision
    async with (
        channel(a.url) as at_a,
        danube_client(world.gate.url) as client,
        producing(client, topic, "through the gate") as producer,
    ):
        straight = Straight(at_a, topic)
        await straight.create()
        await straight.send()
        await producer.send(b"before")
        a.pause()
        await until_at(b.url, topic, b.url)
        waiting = [asyncio.ensure_future(straight.send()) for _ in range(_SENDS)]
        also = asyncio.ensure_future(producer.send(b"while A is paused"))
        async with danube_client(b.url) as other, consuming(other, topic) as consumer:
            a.resume()
            answers = await asyncio.gather(*waiting, return_exceptions=True)
            await until_at(a.url, topic, b.url)
            answers += await asyncio.gather(
                *(straight.send() for _ in range(_SENDS)), straight.create(), return_exceptions=True
            )
            assert [answer for answer in answers if not isinstance(answer, grpc.aio.AioRpcError)] == []
            # A's server cancels what it has not begun to answer; danube-client does not try that again
            told: list[object] = list(await asyncio.gather(also, return_exceptions=True))
            await producer.send(b"after")
            accepted = [] if isinstance(told[0], grpc.aio.AioRpcError) else [b"while A is paused"]
            assert await consumer.take(len(accepted) + 1) == [*accepted, b"after"]
            assert await consumer.nothing()
    assert moves(await history(store, revision), topic) == ["-1 +unassigned", "-unassigned +2"]


class Straight:
    """A producer of one broker, without look-ups and without trying again."""

    def __init__(self, at: grpc.aio.Channel, topic: str) -> None:
        self._stub = services.ProducerServiceStub(at)
        self._topic = topic
        self._id = 0

    async def create(self) -> None:
        """Be created, or raise what the broker says."""
        asked = pb.ProducerRequest(request_id=1, producer_name="straight", topic_name=self._topic)
        self._id = (await self._stub.CreateProducer(asked, timeout=LONG_S)).producer_id

    async def send(self) -> None:
        """Send a message, or raise what the broker says."""
        place = pb.MsgID(producer_id=self._id, topic_name=self._topic)
        message = pb.StreamMessage(request_id=2, msg_id=place, payload=b"x", producer_name="straight")
        await self._stub.SendMessage(message, timeout=LONG_S)
