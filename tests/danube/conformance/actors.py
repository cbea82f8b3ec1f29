"""Producers and consumers that call a broker through one of the doors, by the bare stubs."""

import asyncio
import base64
import json
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import grpc.aio
import pytest
from danube.proto import DanubeApi_pb2 as pb
from danube.proto import DanubeApi_pb2_grpc as services
from google.rpc.error_details_pb2 import ErrorInfo, QuotaFailure, RetryInfo
from google.rpc.status_pb2 import Status
from tests.danube.conformance.steps import TOPIC, Refused, Step
from tests.danube.support.clients import NOTHING_S
from tests.waiting import LONG_S

from sluicegate.engine.state import TopicState

_ID = re.compile(r" \[sluicegate (\S+)\]$")
_HOUR_NS = 3_600_000_000_000
_DETAILS = "grpc-status-details-bin"


class Actors:
    """Carries out steps.

    :param channel: a channel through the door.
    :param state: what the door's engine keeps of a topic.
    :param tick: what the door does once a second, with the monotonic time in ns.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        state: Callable[[str], TopicState],
        tick: Callable[[int], None],
    ) -> None:
        self._producers = services.ProducerServiceStub(channel)
        self._consumers = services.ConsumerServiceStub(channel)
        self._state = state
        self._tick = tick
        self._ids: dict[str, tuple[str, str, int]] = {}
        """Principal, topic and id of who is attached, by name."""
        self._streams: dict[str, Any] = {}
        self._readings: dict[str, asyncio.Future[Any]] = {}
        self._received: dict[str, list[Any]] = {}
        self._subscriptions: dict[str, str] = {}
        self._sent = 0
        self._began: dict[str, float] = {}
        """When something was done first, by what it was."""

    async def carry_out(self, step: Step) -> None:
        """Do the step and compare its result with the expected one."""
        if step.refused is None:
            await getattr(self, step.do)(**step.arguments)
            return
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await getattr(self, step.do)(**step.arguments)
        topic = step.arguments.get("topic") or self._topic(step.arguments.get("producer", ""))
        _compare(raised.value, step.refused, topic)

    def _topic(self, name: str) -> str:
        return self._ids[name][1] if name in self._ids else TOPIC

    def _begin(self, what: str) -> None:
        self._began.setdefault(what, time.monotonic())

    def _since(self, first: str) -> float:
        return time.monotonic() - self._began[first]

    async def _attached(self, call: Callable[[], Any], at_least_s: float, eventually: bool) -> Any:
        """The answer to a call.

        :param eventually: call again and again until it is not refused.
        """
        self._begin("attach")
        until = time.monotonic() + LONG_S
        while True:
            try:
                answer = await call()
            except grpc.aio.AioRpcError:
                if not eventually or time.monotonic() > until:
                    raise
                await asyncio.sleep(0.05)
            else:
                assert self._since("attach") >= at_least_s
                return answer

    async def attach(
        self,
        producer: str,
        topic: str = TOPIC,
        reliable: bool = True,
        principal: str = "",
        at_least_s: float = 0,
        eventually: bool = False,
    ) -> None:
        request = pb.ProducerRequest(
            producer_name=producer,
            topic_name=topic,
            dispatch_strategy=pb.Reliable if reliable else pb.NonReliable,
        )
        call = partial(self._producers.CreateProducer, request, **_options(principal))
        answer = await self._attached(call, at_least_s, eventually)
        self._ids[producer] = (principal, topic, answer.producer_id)

    async def attach_until(self, producer: str) -> None:
        await self.attach(producer)
        for number in range(50):
            await self.attach(f"{producer}{number}")

    async def silence(self) -> None:
        self._tick(time.monotonic_ns() + _HOUR_NS)

    async def publish(self, producer: str, size: int = 10, times: int = 1, at_least_s: float = 0) -> None:
        principal, topic, called = self._ids[producer]
        self._begin("publish")
        for _ in range(times):
            request = pb.StreamMessage(
                msg_id=pb.MsgID(producer_id=called, topic_name=topic),
                payload=self._sent.to_bytes(8, "big").ljust(size, b".")[:size],
                publish_time=time.time_ns() // 1_000_000,
                producer_name=producer,
            )
            await self._producers.SendMessage(request, **_options(principal))
            self._sent += 1
        assert self._since("publish") >= at_least_s

    async def publish_until(self, producer: str, at_least: int, size: int = 10) -> None:
        for sent in range(at_least + 50):
            try:
                await self.publish(producer, size)
            except grpc.aio.AioRpcError:
                assert sent >= at_least
                raise

    async def subscribe(
        self,
        consumer: str,
        subscription: str,
        topic: str = TOPIC,
        principal: str = "",
        at_least_s: float = 0,
        eventually: bool = False,
    ) -> None:
        request = pb.ConsumerRequest(
            topic_name=topic,
            consumer_name=consumer,
            subscription=subscription,
            subscription_type=pb.ConsumerRequest.Shared,
        )
        call = partial(self._consumers.Subscribe, request, **_options(principal))
        answer = await self._attached(call, at_least_s, eventually)
        self._ids[consumer] = (principal, topic, answer.consumer_id)
        self._subscriptions[consumer] = subscription

    def _stream(self, consumer: str) -> Any:
        if consumer not in self._streams:
            principal, _, called = self._ids[consumer]
            request = pb.ReceiveRequest(consumer_id=called)
            self._streams[consumer] = self._consumers.ReceiveMessages(request, metadata=_metadata(principal))
        return self._streams[consumer]

    async def _next(self, consumer: str, within_s: float) -> Any:
        """The next message; None if none comes in time. What is being read then goes on being read."""
        reading = self._readings.get(consumer)
        if reading is None:
            reading = self._readings[consumer] = asyncio.ensure_future(self._stream(consumer).read())
        done, _ = await asyncio.wait([reading], timeout=within_s)
        if not done:
            return None
        message = self._readings.pop(consumer).result()
        assert isinstance(message, pb.StreamMessage), f"the stream of {consumer} has ended"
        received = self._received.setdefault(consumer, [])
        assert not received or received[-1].payload < message.payload, "not in order"
        received.append(message)
        return message

    async def receive(self, consumer: str, count: int, at_least_s: float = 0, older_s: float = 0) -> None:
        began = time.monotonic()
        for _ in range(count):
            message = await self._next(consumer, LONG_S)
            assert message is not None, "no message came"
            assert time.time_ns() / 1e9 - message.publish_time / 1e3 >= older_s
        assert time.monotonic() - began >= at_least_s

    async def receives_nothing(self, consumer: str) -> None:
        assert await self._next(consumer, NOTHING_S) is None

    async def acknowledge(self, consumer: str, count: int) -> None:
        principal, _, _ = self._ids[consumer]
        for _ in range(count):
            message = self._received[consumer].pop(0)
            request = pb.AckRequest(msg_id=message.msg_id, subscription_name=self._subscriptions[consumer])
            await self._consumers.Ack(request, **_options(principal))

    async def leave(self, consumer: str) -> None:
        self._stream(consumer).cancel()
        self._readings.pop(consumer, None)
        del self._streams[consumer]

    async def gets_part(self, consumer: str, of: int, at_least: int) -> None:
        state = self._state(self._topic(consumer))
        arrived = 0
        async with asyncio.timeout(LONG_S):
            while arrived + state.dropped < of:
                arrived += await self._next(consumer, NOTHING_S) is not None
        assert at_least <= arrived < of, (arrived, state.dropped, state.dispatched_messages)

    async def close(self) -> None:
        """End what is open."""
        for stream in self._streams.values():
            stream.cancel()
        await asyncio.gather(*self._readings.values(), return_exceptions=True)


def _metadata(principal: str) -> tuple[tuple[str, str], ...] | None:
    """A token that names a principal; brokers here believe any."""
    if not principal:
        return None
    claims = base64.urlsafe_b64encode(json.dumps({"sub": principal}).encode()).decode().rstrip("=")
    return (("authorization", f"Bearer e30.{claims}.c2ln"),)


def _options(principal: str) -> dict[str, Any]:
    return {"timeout": LONG_S, "metadata": _metadata(principal)}


def _compare(error: grpc.aio.AioRpcError, expected: Refused, topic: str) -> None:
    """An error's code, text and details are the expected ones."""
    text = error.details() or ""
    marked = _ID.search(text)
    assert marked is not None, f"no decision id in {text!r}"
    assert error.code().name == expected.code, text
    pattern = re.escape(expected.text).replace(r"\{\}", r"[\d.]+")
    assert re.fullmatch(pattern, _ID.sub("", text)), f"{text!r}, expected {expected.text!r}"
    trailers: Mapping[str, Any] = dict(tuple(error.trailing_metadata() or ()))
    status = Status.FromString(trailers[_DETAILS])
    assert (status.code, status.message) == (error.code().value[0], text)
    found: dict[str, Any] = {}
    for detail in status.details:
        for kind in (ErrorInfo, RetryInfo, QuotaFailure):
            if detail.Is(kind.DESCRIPTOR):
                found[kind.DESCRIPTOR.name] = kind.FromString(detail.value)
    info = found["ErrorInfo"]
    assert (info.reason, info.domain) == (expected.policy.upper(), "sluicegate")
    metadata = dict(info.metadata)
    current = metadata.pop("current")
    assert expected.current is None or current == str(expected.current)
    assert metadata == {
        "topic": topic,
        "policy": expected.policy,
        "limit": str(expected.limit),
        "level": expected.level,
        "decision_id": marked[1],
    }
    assert ("RetryInfo" in found) is expected.retry
    assert ("QuotaFailure" in found) is (expected.code != "INVALID_ARGUMENT")
