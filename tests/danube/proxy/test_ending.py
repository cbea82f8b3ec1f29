"""Calls that end before their response: they release their places, and held ones are never forwarded."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from danube.proto import DanubeApi_pb2 as pb
from danube.proto import DanubeApi_pb2_grpc as services
from tests.danube.support.clients import NOTHING_S
from tests.danube.support.gates import Gate, channel, gate, on_topic
from tests.waiting import LONG_S, until_so

from sluicegate.net.relaying import draining
from sluicegate_danube.reference import ReferenceBroker

SIZE = 1000
HELD = {
    "max_publish_rate_bytes": "1B/s",
    "burst_seconds": SIZE,
    "on_limit": {"max_publish_rate_bytes": "delay"},
}
"""The second message of this size is held for 1000 s, longer than any test takes."""


@asynccontextmanager
async def publisher(through: Gate, topic: str) -> AsyncIterator[tuple[Any, Any]]:
    """A stub, and a message of a producer that is attached."""
    async with channel(through) as to_gate:
        stub = services.ProducerServiceStub(to_gate)
        made = await stub.CreateProducer(
            pb.ProducerRequest(producer_name="p", topic_name=topic, dispatch_strategy=pb.Reliable)
        )
        position = pb.MsgID(producer_id=made.producer_id, topic_name=topic)
        yield stub, pb.StreamMessage(msg_id=position, payload=_padded(b"first"))


def _padded(text: bytes) -> bytes:
    return text.ljust(SIZE)


def _texts(reference: ReferenceBroker, topic: str) -> list[bytes]:
    return [message.payload.rstrip() for message in reference.messages(topic)]


async def _delayed(through: Gate, topic: str) -> None:
    """Wait until a call is held."""
    await until_so(lambda: through.state(topic).delayed)


async def test_a_cancelled_held_call_is_never_forwarded(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    async with (
        gate(tmp_path, reference.addresses, on_topic(topic, **HELD), max_hold="1h") as through,
        publisher(through, topic) as (stub, message),
    ):
        await stub.SendMessage(message)
        message.payload = _padded(b"cancelled")
        held = stub.SendMessage(message)
        await _delayed(through, topic)
        held.cancel()
        through.change(name=topic)  # no limit any more
        message.payload = _padded(b"last")
        await stub.SendMessage(message, timeout=LONG_S)
        assert through.state(topic).allowed_messages == 2
    assert _texts(reference, topic) == [b"first", b"last"]


async def test_a_held_call_past_its_deadline_is_never_forwarded(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    async with (
        gate(tmp_path, reference.addresses, on_topic(topic, **HELD), max_hold="1h") as through,
        publisher(through, topic) as (stub, message),
    ):
        await stub.SendMessage(message)
        message.payload = _padded(b"late")
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await stub.SendMessage(message, timeout=0.2)
        assert ended.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        through.change(name=topic)  # no limit any more
        message.payload = _padded(b"last")
        await stub.SendMessage(message, timeout=LONG_S)
        assert through.state(topic).allowed_messages == 2
    assert _texts(reference, topic) == [b"first", b"last"]


async def test_a_held_call_of_a_closed_connection_is_never_forwarded(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    async with gate(tmp_path, reference.addresses, on_topic(topic, **HELD), max_hold="1h") as through:
        async with publisher(through, topic) as (stub, message):
            await stub.SendMessage(message)
            message.payload = _padded(b"lost")
            held = stub.SendMessage(message)
            await _delayed(through, topic)
        assert held.done()
        through.change(name=topic)
        async with publisher(through, topic) as (stub, message):
            await stub.SendMessage(message, timeout=LONG_S)
        assert _texts(reference, topic) == [b"first", b"first"]


async def test_a_call_held_too_long_is_refused_with_a_retry_delay(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    async with (
        gate(tmp_path, reference.addresses, on_topic(topic, **HELD), max_hold="100ms") as through,
        publisher(through, topic) as (stub, message),
    ):
        await stub.SendMessage(message)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await asyncio.gather(*(stub.SendMessage(message, timeout=LONG_S) for _ in range(20)))
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "Publish rate limit exceeded" in str(refused.value.details())


@pytest.mark.seed("S1-043")
@pytest.mark.parametrize("how", ["cancel", "deadline", "connection"])
async def test_a_consumer_whose_stream_ends_frees_its_place(
    reference: ReferenceBroker, topic: str, tmp_path: Path, how: str
) -> None:
    reference.create_topic(topic, reliable=True)

    def request(name: str) -> Any:
        return pb.ConsumerRequest(
            topic_name=topic,
            consumer_name=name,
            subscription="s",
            subscription_type=pb.ConsumerRequest.Shared,
        )

    policies = on_topic(topic, max_consumers_per_topic=1)
    async with gate(tmp_path, reference.addresses, policies) as through, channel(through) as other:
        second = services.ConsumerServiceStub(other)
        async with channel(through) as to_gate:
            first = services.ConsumerServiceStub(to_gate)
            attached = await first.Subscribe(request("first"), timeout=LONG_S)
            stream = first.ReceiveMessages(
                pb.ReceiveRequest(consumer_id=attached.consumer_id),
                timeout=NOTHING_S if how == "deadline" else None,
            )
            reading = asyncio.ensure_future(stream.read())
            await until_so(lambda: reading.done() or reference.consumers(topic, "s") == ["first"])
            refused = await _code(second.Subscribe(request("second"), timeout=LONG_S))
            # A slow machine may be overtaken by the deadline.
            assert refused is grpc.StatusCode.RESOURCE_EXHAUSTED or (reading.done() and how == "deadline")
            if how == "cancel":
                stream.cancel()
            if how != "connection":
                await _let_in(second, request("second"))
        await asyncio.wait([reading])
        if how == "connection":
            await _let_in(second, request("second"))


async def _code(call: Any) -> grpc.StatusCode | None:
    """The status that a call fails with, if it does."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return None


async def _let_in(stub: Any, request: Any) -> None:
    async with asyncio.timeout(LONG_S):
        while await _code(stub.Subscribe(request, timeout=LONG_S)) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_attachments_refused_by_the_broker_take_no_place(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    reference.create_topic(topic, reliable=True)
    policies = on_topic(topic, max_producers_per_topic=1)
    async with gate(tmp_path, reference.addresses, policies) as through, channel(through) as to_gate:
        stub = services.ProducerServiceStub(to_gate)
        for _ in range(3):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                # The topic is reliable, which a producer must not deny.
                await stub.CreateProducer(pb.ProducerRequest(producer_name="liar", topic_name=topic))
            assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        await stub.CreateProducer(
            pb.ProducerRequest(producer_name="p", topic_name=topic, dispatch_strategy=pb.Reliable)
        )
        assert len(through.state(topic).producers) == 1


async def test_shutdown_waits_for_the_response_to_a_forwarded_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its client would make the call again, which the broker has taken."""
    monkeypatch.setattr(draining, "ANSWER_NS", int(LONG_S * 1e9))
    arrived, go = asyncio.Event(), asyncio.Event()

    async def slow_at_first(request: bytes, context: Any) -> bytes:
        if not arrived.is_set():
            arrived.set()
            await go.wait()
        return b""

    handler: Any = grpc.unary_unary_rpc_method_handler(slow_at_first)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("danube.HealthCheck", {"HealthCheck": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with gate(tmp_path, [f"127.0.0.1:{port}"]) as through, channel(through) as to_gate:
            stub = services.HealthCheckStub(to_gate)
            call = stub.HealthCheck(pb.HealthCheckRequest(id=1))
            await arrived.wait()
            await stub.HealthCheck(pb.HealthCheckRequest(id=1))  # something comes back meanwhile
            ending = asyncio.ensure_future(through.gateway.worker().drain(LONG_S))
            await asyncio.sleep(0.5)  # longer than it waits for a client who is owed nothing
            go.set()
            assert (await call).status == 0
            await ending
    finally:
        await server.stop(None)
