"""The interceptors in a grpc.aio channel, before a broker that has no policies."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
import pytest
from grpc import aio
from tests.grpc.interceptors.aio.serving import Behaviors
from tests.grpc.lab import (
    MAP,
    TOPIC,
    Broker,
    P,
    burst_of,
    consumers,
    create,
    engine,
    handlers,
    message,
    number,
    producers,
    send,
    settings,
    subscribe,
    told,
)
from tests.waiting import until_so

from sluicegate.embedded import PolicyEngine
from sluicegate.model import Scope
from sluicegate_grpc.aio import policy_client_interceptors

CODE = grpc.StatusCode


@asynccontextmanager
async def policed(made: PolicyEngine, broker: Broker | None = None, **options: Any) -> AsyncIterator[Any]:
    """A channel with the interceptors, whose broker is its attribute `broker`."""
    behaviors = Behaviors(broker or Broker())
    server = aio.server()
    server.add_generic_rpc_handlers((handlers(behaviors),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    interceptors = policy_client_interceptors(made, MAP, **options)
    try:
        async with aio.insecure_channel(f"127.0.0.1:{port}", interceptors=interceptors) as channel:
            channel.behaviors = behaviors  # type: ignore[attr-defined]
            yield channel
    finally:
        behaviors.go.set()
        await server.stop(None)
        made.close()


async def refused(call: Any) -> Any:
    with pytest.raises(aio.AioRpcError) as caught:
        await call
    return told(caught.value)


async def test_producers_over_the_limit_are_refused_before_the_call_is_sent() -> None:
    async with policed(engine(max_producers_per_topic=1)) as channel:
        attach = channel.unary_unary(P + "Create")
        assert number(await attach(create("a"))) == 1
        found = await refused(attach(create("b")))
        assert (found.code, found.info.reason) == (CODE.RESOURCE_EXHAUSTED, "MAX_PRODUCERS_PER_TOPIC")
        assert found.text.startswith("Producer limit reached")
        assert channel.behaviors.broker.last_id == 1


async def test_counts_fall_when_the_broker_refuses_or_the_call_is_cancelled_or_times_out() -> None:
    made = engine(max_producers_per_topic=1)
    async with policed(made) as channel:
        attach = channel.unary_unary(P + "Create")
        assert (await refused(attach(create("crash")))).code is CODE.UNKNOWN
        assert producers(made) == 0
        cancelled = asyncio.ensure_future(attach(create("hold")))
        await channel.behaviors.blocked.wait()
        assert producers(made) == 1
        cancelled.cancel()
        await until_so(lambda: producers(made) == 0)
        assert (await refused(attach(create("hold"), timeout=0.1))).code is CODE.DEADLINE_EXCEEDED
        assert producers(made) == 0


async def test_publishes_are_refused_delayed_or_not_found() -> None:
    policies: dict[str, Any] = {
        "max_message_size": 100,
        "max_publish_rate": 20,
        "burst_seconds": 0.05,
        "on_limit__max_publish_rate": "delay",
    }
    async with policed(engine(**policies)) as channel:
        publish = channel.unary_unary(P + "Send")
        assert (await refused(publish(send(1)))).code is CODE.NOT_FOUND
        producer = number(await channel.unary_unary(P + "Create")(create("a")))
        assert (await refused(publish(send(producer, 101)))).code is CODE.INVALID_ARGUMENT
        began = time.monotonic()
        await asyncio.gather(*(publish(send(producer)) for _ in range(11)))
        assert time.monotonic() - began >= 0.5 - 0.05
        assert channel.behaviors.broker.sent == 11


async def test_a_client_that_detaches_frees_its_place_and_other_calls_pass() -> None:
    made = engine(max_producers_per_topic=1)
    async with policed(made) as channel:
        producer = number(await channel.unary_unary(P + "Create")(create("a")))
        for name in ("Ping", "Ack", "Other"):
            assert await channel.unary_unary(P + name)(message({1: producer})) == b""
        assert producers(made) == 1
        await channel.unary_unary(P + "Leave")(message({1: producer}))
        assert producers(made) == 0


async def test_silent_clients_are_released() -> None:
    made = engine(max_producers_per_topic=1)
    async with policed(made, ghost_release_s=0.1) as channel:
        await channel.unary_unary(P + "Create")(create("a"))
        await until_so(lambda: producers(made) == 0)


async def test_deliveries_are_paced_without_loss() -> None:
    made = engine(max_dispatch_rate=50, burst_seconds=0.1)
    async with policed(made, Broker(messages=30)) as channel:
        consumer = number(await channel.unary_unary(P + "Subscribe")(subscribe("c")))
        began = time.monotonic()
        call = channel.unary_stream(P + "Receive")(message({1: consumer}))
        assert [number(each) async for each in call] == list(range(1, 31))
        assert time.monotonic() - began >= 25 / 50


async def test_unacknowledged_messages_pause_the_stream() -> None:
    async with policed(engine(max_unacked_messages_per_consumer=1), Broker(messages=2)) as channel:
        consumer = number(await channel.unary_unary(P + "Subscribe")(subscribe("c")))
        call = channel.unary_stream(P + "Receive")(message({1: consumer}))
        assert number(await call.read()) == 1
        second = asyncio.ensure_future(call.read())
        await channel.unary_unary(P + "Ping")(message({1: consumer}))
        assert not second.done()
        await channel.unary_unary(P + "Ack")(message({1: TOPIC, 2: "s", 3: 1}))
        assert number(await second) == 2


async def test_a_consumer_whose_stream_is_cancelled_frees_its_place() -> None:
    made = engine(max_consumers_per_topic=1)
    async with policed(made, Broker(messages=1)) as channel:
        consumer = number(await channel.unary_unary(P + "Subscribe")(subscribe("c")))
        call = channel.unary_stream(P + "Receive")(message({1: consumer, 2: "stay"}))
        assert number(await call.read()) == 1
        call.cancel()
        await until_so(lambda: consumers(made) == 0)
        found = await refused(channel.unary_stream(P + "Receive")(message({1: 99})).read())
        assert found.code is CODE.NOT_FOUND


async def test_a_stream_that_subscribes_itself_counts_for_as_long_as_it_is_open() -> None:
    made = engine(max_consumers_per_topic=1)
    async with policed(made, Broker(messages=2)) as channel:
        release = asyncio.Event()

        async def requests() -> AsyncIterator[bytes]:
            yield subscribe("c")
            await release.wait()

        call = channel.stream_stream(P + "Follow")(requests())
        got = aiter(call)
        assert [number(await anext(got)), number(await anext(got))] == [1, 2]
        second = channel.stream_stream(P + "Follow")(iter([subscribe("d")]))
        with pytest.raises(aio.AioRpcError) as caught:
            await anext(aiter(second))
        assert told(caught.value).code is CODE.RESOURCE_EXHAUSTED
        release.set()
        assert [each async for each in got] == []
        assert consumers(made) == 0


@pytest.mark.parametrize("method", ["SendAll", "Talk"])
async def test_a_stream_of_publishes_ends_with_the_first_that_is_refused(method: str) -> None:
    async with policed(engine(max_message_size=100)) as channel:
        kind = channel.stream_unary if method == "SendAll" else channel.stream_stream
        requests = iter([message({1: TOPIC, 2: b"x" * size}) for size in (100, 101)])
        call = kind(P + method)(requests)
        with pytest.raises(aio.AioRpcError) as caught:
            await call if method == "SendAll" else [each async for each in call]
        assert told(caught.value).code is CODE.INVALID_ARGUMENT


async def test_a_stream_of_publishes_within_the_limits_arrives() -> None:
    async with policed(engine(max_message_size=100)) as channel:
        requests = [message({1: TOPIC, 2: b"x"})] * 5
        assert number(await channel.stream_unary(P + "SendAll")(iter(requests))) == 5
        answers = [number(each) async for each in channel.stream_stream(P + "Talk")(iter(requests))]
        assert answers == [6, 7, 8, 9, 10]


async def test_principals_come_from_the_metadata() -> None:
    made = engine(max_producers_per_topic=1)

    def principal(metadata: Any) -> str:
        return str(dict(tuple(metadata or ())).get("user", "nobody"))

    async with policed(made, principal=principal) as channel:
        await channel.unary_unary(P + "Create")(create("a"), metadata=(("user", "u1"),))
        await refused(channel.unary_unary(P + "Create")(create("b")))
    sink: Any = made._host.compiler._sink
    assert [record.op.principal for record in sink.records] == ["u1", "nobody"]


async def test_a_rate_of_one_principal_holds_no_other() -> None:
    made = engine()
    limit = settings(on_limit__max_publish_rate="reject", **burst_of(1))
    made.set_policies([replace(limit, scope=Scope(principals=("anna",)))])

    def principal(metadata: Any) -> str:
        return str(dict(tuple(metadata or ()))["user"])

    async with policed(made, principal=principal) as channel:
        publish = channel.unary_unary(P + "SendAll")
        request = message({1: TOPIC, 2: b"x"})
        for user in ("anna", "bert", "bert"):
            await publish(request, metadata=(("user", user),))
        over = await refused(publish(request, metadata=(("user", "anna"),)))
        assert "max_publish_rate" in over.text
