"""Danube's clients by its bare stubs, on a channel of either kind: neither retries nor buffers."""

import asyncio
import base64
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
from danube.proto import DanubeApi_pb2 as pb
from danube.proto import DanubeApi_pb2_grpc as services
from tests.waiting import LONG_S

from sluicegate.engine.state import TopicState
from sluicegate.testing.conformance import Door, Received, RefusedByDoor, Sample
from sluicegate.testing.sink import RecordingSink

_ELSEWHERE = "/default/elsewhere"


async def in_loop(call: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any) -> Any:
    """Call a stub of a channel of `grpc.aio`."""
    return await call(*arguments, **options)


class Stubs:
    """The services of a channel.

    :param channel: of `grpc.aio`, or with threads.
    :param run: calls a method of a stub: `in_loop`, or `asyncio.to_thread`.
    """

    def __init__(self, channel: Any, run: Callable[..., Awaitable[Any]] = in_loop) -> None:
        self.producing = services.ProducerServiceStub(channel)
        self.consuming = services.ConsumerServiceStub(channel)
        self._run = run

    async def call(self, method: Any, request: Any, principal: str) -> Any:
        """Call a method with one response.

        :raises RefusedByDoor: if the call fails, with its status.
        """
        try:
            return await self._run(method, request, timeout=LONG_S, metadata=_metadata(principal))
        except grpc.RpcError as error:
            failed: Any = error
            raise RefusedByDoor(f"{failed.code().name}: {failed.details()}") from None

    async def next(self, call: Any) -> Any:
        """The next message of a stream."""
        return await (call.read() if hasattr(call, "read") else self._run(next, call, None))


class StubDoor(Door):
    """A way to the reference broker for clients by bare stubs, all on one channel."""

    tells_reasons = True

    def __init__(
        self, stubs: Stubs, sink: RecordingSink, file: Path, state: Callable[[str], TopicState]
    ) -> None:
        self.stubs = stubs
        self._proven: set[str] = set()
        self.sink, self.file, self._state = sink, file, state

    def state(self, topic: str) -> TopicState:
        """What the engine keeps of a topic."""
        return self._state(topic)

    async def producer(self, topic: str, name: str, principal: str) -> "StubProducer":
        """Register a producer of reliable messages."""
        await self._prove(principal)
        return await self._register(topic, name, principal)

    async def _prove(self, principal: str) -> None:
        """Have the broker accept a token, by a call for another topic: before, it is only a claim."""
        if principal and principal not in self._proven:
            self._proven.add(principal)
            await self._register(_ELSEWHERE, principal, principal)

    async def _register(self, topic: str, name: str, principal: str) -> "StubProducer":
        request = pb.ProducerRequest(
            producer_name=name, topic_name=topic, dispatch_strategy=pb.DispatchStrategy.Reliable
        )
        answer = await self.stubs.call(self.stubs.producing.CreateProducer, request, principal)
        return StubProducer(self.stubs, topic, name, principal, answer.producer_id)

    async def consumer(self, topic: str, subscription: str, name: str, principal: str) -> "StubConsumer":
        """Attach a consumer to a shared subscription."""
        await self._prove(principal)
        request = pb.ConsumerRequest(
            topic_name=topic,
            consumer_name=name,
            subscription=subscription,
            subscription_type=pb.ConsumerRequest.Shared,
        )
        answer = await self.stubs.call(self.stubs.consuming.Subscribe, request, principal)
        return StubConsumer(self.stubs, subscription, principal, answer.consumer_id)


class StubProducer:
    """One producer, registered."""

    def __init__(self, stubs: Stubs, topic: str, name: str, principal: str, called: int) -> None:
        self._stubs, self._topic, self._name, self._principal = stubs, topic, name, principal
        self._id = called

    async def publish(self, message: Sample) -> None:
        """Publish a message."""
        request = pb.StreamMessage(
            msg_id=pb.MsgID(producer_id=self._id, topic_name=self._topic),
            payload=message.value,
            publish_time=time.time_ns() // 1_000_000,
            producer_name=self._name,
            attributes={name: value.decode() for name, value in message.headers.items()},
            schema_version=int(message.schema) if message.schema else None,
            routing_key=None if message.key is None else message.key.decode(),
        )
        await self._stubs.call(self._stubs.producing.SendMessage, request, self._principal)

    async def close(self) -> None:
        """Fall silent: Danube has no message for leaving."""


class StubConsumer:
    """One consumer, with an open stream."""

    def __init__(self, stubs: Stubs, subscription: str, principal: str, called: int) -> None:
        self._stubs, self._subscription, self._principal = stubs, subscription, principal
        request = pb.ReceiveRequest(consumer_id=called)
        self._stream = stubs.consuming.ReceiveMessages(request, metadata=_metadata(principal))
        self._reading: asyncio.Future[Any] | None = None

    async def receive(self, within_s: float) -> Received | None:
        """The next message; what is being read when none comes in time goes on being read."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._stubs.next(self._stream))
        done, _ = await asyncio.wait([self._reading], timeout=within_s)
        if not done:
            return None
        message = self._reading.result()
        self._reading = None
        headers = {name: value.encode() for name, value in message.attributes.items()}
        return Received(message.payload, headers, message)

    async def acknowledge(self, message: Received) -> None:
        """Acknowledge one message."""
        request = pb.AckRequest(msg_id=message.raw.msg_id, subscription_name=self._subscription)
        await self._stubs.call(self._stubs.consuming.Ack, request, self._principal)

    async def close(self) -> None:
        """End the stream, by which it leaves."""
        self._stream.cancel()
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)


def _metadata(principal: str) -> tuple[tuple[str, str], ...]:
    """A token that names a principal; the reference broker believes any."""
    if not principal:
        return ()
    claims = base64.urlsafe_b64encode(json.dumps({"sub": principal}).encode()).decode().rstrip("=")
    return (("authorization", f"Bearer e30.{claims}.c2ln"),)
