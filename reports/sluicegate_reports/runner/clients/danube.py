"""danube-client, by its internal producer of one topic, which sends each message once.

The library's public producer retries RESOURCE_EXHAUSTED for ever, so refusals would never be seen.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import grpc
from danube import DanubeClientBuilder, DispatchStrategy, SubType
from danube.topic_producer import TopicProducer

from sluicegate_reports.runner.clients.base import (
    Delivery,
    DrivenProducer,
    FailedError,
    OnDelivery,
    RefusedError,
)
from sluicegate_reports.runner.plan import ArmPlan, ConsumerPlan, ProducerPlan

_CLOSE_S = 1.0
_NO_ANSWER = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN"}
_KINDS = {"shared": SubType.SHARED, "exclusive": SubType.EXCLUSIVE, "failover": SubType.FAILOVER}


def _refusal(error: BaseException) -> RefusedError:
    if isinstance(error, grpc.aio.AioRpcError):
        name = error.code().name
        return (FailedError if name in _NO_ANSWER else RefusedError)(name, str(error.details()))
    if isinstance(error.__cause__, grpc.aio.AioRpcError):
        return _refusal(error.__cause__)
    return FailedError(type(error).__name__, " ".join(str(error).split()))


class Driver:
    """Clients of one arm."""

    def __init__(self, plan: ArmPlan) -> None:
        self._url = f"http://{plan.addresses[0]}"

    def producer(self, plan: ProducerPlan) -> "_Producer":
        """A producer with a client of its own."""
        return _Producer(self._url, plan)

    def consumer(self, plan: ConsumerPlan) -> "_Consumer":
        """A consumer with a client of its own."""
        return _Consumer(self._url, plan)


async def _client(url: str) -> Any:
    """A client with connections of its own, as a process of its own would have.

    Channels of one process to one address share a connection by default, and a broker then never sees one
    client leave.
    """
    client: Any = await DanubeClientBuilder().service_url(url).build()
    client.connection_manager._create_channel = _channel  # noqa: SLF001 - the library offers no other way
    return client


def _channel(url: str) -> grpc.aio.Channel:
    target = url.removeprefix("http://")
    return grpc.aio.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)])


async def _hang_up(client: Any) -> None:
    """Close a client's connections, for which it has no method."""
    for connection in client.connection_manager._connections.values():  # noqa: SLF001 - see above
        await connection.channel.close()


async def _topic_producer(client: Any, topic: str, name: str) -> TopicProducer:
    """A reliable producer that the broker has let in; it does not retry, so its back-off is 0."""
    made = TopicProducer(client, topic, name, None, DispatchStrategy.RELIABLE, 0, 0, 0)
    await made.create()
    return made


async def make_topics(address: str, topics: Iterable[str]) -> None:
    """Create reliable topics, which Danube does for a first producer.

    :param address: the broker's own, not a gateway's: the producers that make them must not count.
    :raises RefusedError: if the broker does not create one of them.
    """
    try:
        client = await _client(f"http://{address}")
        try:
            for topic in topics:
                (await _topic_producer(client, topic, "maker")).stop()
        finally:
            await _hang_up(client)
    except Exception as error:  # noqa: BLE001 - the library raises what it likes
        raise _refusal(error) from None


class _Producer(DrivenProducer):
    def __init__(self, url: str, plan: ProducerPlan) -> None:
        self._url = url
        self._plan = plan
        self._client: Any = None
        self._producer: Any = None

    async def attach(self) -> None:
        try:
            if self._client is None:
                self._client = await _client(self._url)
            self._producer = await _topic_producer(self._client, self._plan.topic, self._plan.name)
        except Exception as error:  # noqa: BLE001 - the library raises what it likes
            raise _refusal(error) from None

    async def publish(self, payload: bytes) -> None:
        try:
            await self._producer.send(payload)
        except Exception as error:  # noqa: BLE001 - as above
            raise _refusal(error) from None

    async def close(self) -> None:
        if self._producer is not None:
            self._producer.stop()
        if self._client is not None:
            await _hang_up(self._client)


class _Consumer:
    def __init__(self, url: str, plan: ConsumerPlan) -> None:
        self._url = url
        self._plan = plan
        self._client: Any = None
        self._consumer: Any = None
        self._reading: asyncio.Task[None] | None = None
        self._acknowledging: set[asyncio.Task[None]] = set()

    async def attach(self, deliver: OnDelivery) -> None:
        plan = self._plan
        try:
            if self._client is None:
                self._client = await _client(self._url)
            builder = self._client.new_consumer().with_topic(plan.topic).with_consumer_name(plan.name)
            builder = builder.with_subscription(plan.subscription)
            made = builder.with_subscription_type(_KINDS[plan.kind]).build()
            await made.subscribe()
            messages = await made.receive()
        except Exception as error:  # noqa: BLE001 - as above
            raise _refusal(error) from None
        self._consumer = made
        self._reading = asyncio.ensure_future(self._read(messages, deliver))

    async def _read(self, messages: Any, deliver: OnDelivery) -> None:
        while True:
            message = await messages.get()
            acknowledge = partial(self._acknowledge, message) if self._plan.acknowledge else None
            deliver(Delivery(message.payload, acknowledge))

    def _acknowledge(self, message: Any) -> None:
        task = asyncio.ensure_future(self._ack(message))
        self._acknowledging.add(task)
        task.add_done_callback(self._acknowledging.discard)

    async def _ack(self, message: Any) -> None:
        with suppress(Exception):
            await self._consumer.ack(message)

    async def close(self) -> None:
        for task in [*([self._reading] if self._reading is not None else []), *self._acknowledging]:
            task.cancel()
        with suppress(TimeoutError):
            if self._consumer is not None:
                await asyncio.wait_for(self._consumer.close(), _CLOSE_S)
        if self._client is not None:
            await _hang_up(self._client)
