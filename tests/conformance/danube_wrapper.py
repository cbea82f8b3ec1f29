"""danube-client with the policies in its process (`sluicegate_danube.client`), as a door."""

import asyncio
from pathlib import Path
from typing import Any

from danube import DispatchStrategy, SubType

from sluicegate.embedded import PolicyEngine
from sluicegate.engine.state import TopicState
from sluicegate.model import ANONYMOUS
from sluicegate.testing.conformance import Door, Received, RefusedByDoor, Sample
from sluicegate.testing.sink import RecordingSink
from sluicegate_danube.client import Consumer, DanubeClient, DanubeClientBuilder, Producer
from sluicegate_danube.client.exceptions import PolicyError


class WrapperProducer:
    """One producer."""

    def __init__(self, made: Producer) -> None:
        self._made = made

    async def publish(self, message: Sample) -> None:
        """Publish a message."""
        attributes = {name: value.decode() for name, value in message.headers.items()}
        try:
            await self._made.send(message.value, attributes)
        except PolicyError as error:
            raise RefusedByDoor(str(error)) from error

    async def close(self) -> None:
        """Leave."""
        await self._made.close()


class WrapperConsumer:
    """One consumer, which receives."""

    def __init__(self, made: Consumer, messages: "asyncio.Queue[Any]") -> None:
        self._made, self._messages = made, messages

    async def receive(self, within_s: float) -> Received | None:
        """The next message."""
        try:
            message = await asyncio.wait_for(self._messages.get(), within_s)
        except TimeoutError:
            return None
        headers = {name: value.encode() for name, value in message.attributes.items()}
        return Received(message.payload, headers, message)

    async def acknowledge(self, message: Received) -> None:
        """Acknowledge one message."""
        await self._made.ack(message.raw)

    async def close(self) -> None:
        """Leave."""
        await self._made.close()
        await asyncio.gather(*self._made._tasks, return_exceptions=True)


class WrapperDoor(Door):
    """Clients of the reference broker, one for each principal."""

    tells_reasons = True

    def __init__(self, engine: PolicyEngine, url: str, sink: RecordingSink, file: Path) -> None:
        self._engine, self._url = engine, url
        self._clients: dict[str, DanubeClient] = {}
        self.sink, self.file = sink, file

    def state(self, topic: str) -> TopicState:
        """What the engine keeps of a topic."""
        return self._engine.gates.states[topic]

    async def _client(self, principal: str) -> DanubeClient:
        if principal not in self._clients:
            builder = DanubeClientBuilder(policies=self._engine, principal=principal or ANONYMOUS)
            self._clients[principal] = await builder.service_url(self._url).build()
        return self._clients[principal]

    async def producer(self, topic: str, name: str, principal: str) -> WrapperProducer:
        """Register a producer of reliable messages."""
        builder = (await self._client(principal)).new_producer().with_topic(topic).with_name(name)
        made = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
        try:
            await made.create()
        except PolicyError as error:
            raise RefusedByDoor(str(error)) from error
        return WrapperProducer(made)

    async def consumer(self, topic: str, subscription: str, name: str, principal: str) -> WrapperConsumer:
        """Attach a consumer to a shared subscription."""
        builder = (await self._client(principal)).new_consumer().with_topic(topic).with_consumer_name(name)
        made = builder.with_subscription(subscription).with_subscription_type(SubType.SHARED).build()
        try:
            await made.subscribe()
        except PolicyError as error:
            raise RefusedByDoor(str(error)) from error
        return WrapperConsumer(made, await made.receive())

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            for connection in client.connection_manager._connections.values():
                await connection.channel.close()
            client.close_policies()
