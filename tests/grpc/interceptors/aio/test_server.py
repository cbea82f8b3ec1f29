"""The interceptor in a grpc.aio server, with real channels."""

import asyncio
import time
from collections import Counter
from time import monotonic_ns
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from grpc import aio
from tests.grpc.interceptors.aio.serving import serving
from tests.grpc.lab import (
    HOLDING,
    HOUR_MS,
    MAP,
    SERVICE,
    TOPIC,
    Broker,
    P,
    burst_of,
    consumers,
    create,
    engine,
    message,
    number,
    producers,
    send,
    settings,
    subscribe,
    told,
    waiting,
)
from tests.waiting import until_so

from sluicegate.config.models import Exempt
from sluicegate.model import Method, MethodMap, Role
from sluicegate.testing import RecordingSink
from sluicegate_grpc.aio import PolicyServerInterceptor

CODE = grpc.StatusCode


async def refused(call: Any) -> Any:
    with pytest.raises(aio.AioRpcError) as caught:
        await call
    return told(caught.value)


@pytest.mark.seed("S1-031", "S1-041", "S1-103", "S1-104", "S1-126")
async def test_producers_over_the_limit_are_refused_with_code_text_and_details() -> None:
    async with serving(engine(max_producers_per_topic=1)) as served:
        assert number(await served.unary("Create", create("a"))) == 1
        found = await refused(served.unary("Create", create("b")))
        assert found.code is CODE.RESOURCE_EXHAUSTED
        assert found.text == (
            f"Producer limit reached for topic {TOPIC}. Current: 1, Limit: 1. Wait for existing producers to "
            "disconnect or increase max_producers_per_topic policy. [sluicegate test-1]"
        )
        assert found.info == ErrorInfo(
            reason="MAX_PRODUCERS_PER_TOPIC",
            domain="sluicegate",
            metadata={
                "topic": TOPIC,
                "policy": "max_producers_per_topic",
                "limit": "1",
                "current": "1",
                "level": "broker",
                "decision_id": "test-1",
            },
        )
        assert found.retry_s is None
        assert found.violations == [f"topic:{TOPIC}"]
        assert served.broker.last_id == 1


@pytest.mark.seed("S1-030")
async def test_a_known_producer_is_not_counted_again() -> None:
    async with serving(engine(max_producers_per_topic=1)) as served:
        await served.unary("Create", create("a"))
        await served.unary("Create", create("a"))
        async with served.other_channel() as other:
            await other.unary_unary(P + "Create")(create("a"))
        assert producers(served.engine) == 1


@pytest.mark.seed("S1-042")
async def test_racing_producers_never_exceed_the_limit() -> None:
    async with serving(engine(max_producers_per_topic=37)) as served:

        async def attach(number: int) -> grpc.StatusCode:
            try:
                await served.unary("Create", create(f"p{number}"))
            except aio.AioRpcError as error:
                return error.code()
            return CODE.OK

        codes = Counter(await asyncio.gather(*(attach(number) for number in range(1000))))
        assert codes == {CODE.OK: 37, CODE.RESOURCE_EXHAUSTED: 963}
        assert 37 == served.broker.last_id == producers(served.engine)


@pytest.mark.seed("S1-034", "S1-037", "S1-038", "S1-040")
async def test_subscribing_checks_its_limits_in_order() -> None:
    policies: dict[str, Any] = {
        "max_subscriptions_per_topic": 2,
        "max_consumers_per_topic": 3,
        "max_consumers_per_subscription": 2,
    }
    async with serving(engine(**policies)) as served:
        await served.unary("Subscribe", subscribe("a", "s1"))
        await served.unary("Subscribe", subscribe("b", "s1"))
        found = await refused(served.unary("Subscribe", subscribe("c", "s1")))
        assert found.info.reason == "MAX_CONSUMERS_PER_SUBSCRIPTION"
        await served.unary("Subscribe", subscribe("c", "s2"))
        found = await refused(served.unary("Subscribe", subscribe("d", "s2")))
        assert found.info.reason == "MAX_CONSUMERS_PER_TOPIC"
        found = await refused(served.unary("Subscribe", subscribe("d", "s3")))
        assert (found.code, found.info.reason) == (CODE.RESOURCE_EXHAUSTED, "MAX_SUBSCRIPTIONS_PER_TOPIC")


async def test_a_new_subscription_is_undone_if_its_consumer_is_refused() -> None:
    async with serving(engine(max_subscriptions_per_topic=2, max_consumers_per_topic=1)) as served:
        await served.unary("Subscribe", subscribe("a", "s1"))
        await refused(served.unary("Subscribe", subscribe("b", "s2")))
        with served.engine.lock:
            assert served.engine.gate(TOPIC, False, 0).state.subscription_count == 1


async def test_subscriptions_that_the_broker_lists_count() -> None:
    asked = []

    async def lists(topic: str) -> list[str]:
        asked.append(topic)
        return ["old"]

    async with serving(engine(max_subscriptions_per_topic=1), list_subscriptions=lists) as served:
        found = await refused(served.unary("Subscribe", subscribe("a", "new")))
        assert found.info.reason == "MAX_SUBSCRIPTIONS_PER_TOPIC"
        await served.unary("Subscribe", subscribe("a", "old"))
        assert asked == [TOPIC]


async def test_new_subscriptions_are_refused_while_they_cannot_be_listed() -> None:
    async def lists(_: str) -> None:
        return None

    async with serving(engine(max_subscriptions_per_topic=1), list_subscriptions=lists) as served:
        found = await refused(served.unary("Subscribe", subscribe("a", "new")))
        assert found.code is CODE.FAILED_PRECONDITION


@pytest.mark.seed("S1-050", "S1-051")
async def test_a_message_over_the_size_limit_is_invalid() -> None:
    async with serving(engine(max_message_size=100)) as served:
        producer = number(await served.unary("Create", create("a")))
        await served.unary("Send", send(producer, 100))
        found = await refused(served.unary("Send", send(producer, 101)))
        assert found.code is CODE.INVALID_ARGUMENT
        assert found.text.startswith("Message size exceeds maximum allowed")
        assert (found.info.metadata["current"], found.info.metadata["limit"]) == ("101", "100")
        assert (found.retry_s, found.violations, served.broker.sent) == (None, [], 1)


@pytest.mark.seed("S1-062")
async def test_a_publish_over_the_rate_is_refused_with_a_retry_delay() -> None:
    async with serving(engine(**burst_of(2))) as served:
        producer = number(await served.unary("Create", create("a")))
        await served.unary("Send", send(producer))
        await served.unary("Send", send(producer))
        found = await refused(served.unary("Send", send(producer)))
        assert found.code is CODE.RESOURCE_EXHAUSTED
        assert found.text.startswith("Publish rate limit exceeded")
        assert found.retry_s is not None
        assert 0 < found.retry_s <= 2048
        assert found.violations == [f"topic:{TOPIC}"]


async def test_a_publish_can_be_delayed_instead() -> None:
    policies: dict[str, Any] = {
        "max_publish_rate": 20,
        "burst_seconds": 0.05,
        "on_limit__max_publish_rate": "delay",
    }
    async with serving(engine(**policies)) as served:
        producer = number(await served.unary("Create", create("a")))
        began = time.monotonic()
        await asyncio.gather(*(served.unary("Send", send(producer)) for _ in range(11)))
        assert served.broker.sent == 11
        assert time.monotonic() - began >= 0.5 - 0.05


async def test_a_delayed_publish_is_refused_after_max_hold() -> None:
    async with serving(engine(max_hold_ms=50, **HOLDING)) as served:
        producer = number(await served.unary("Create", create("a")))
        await served.unary("Send", send(producer, 1000))
        found = await refused(served.unary("Send", send(producer, 1000)))
        assert (found.code, found.info.reason) == (CODE.RESOURCE_EXHAUSTED, "MAX_PUBLISH_RATE_BYTES")
        assert waiting(served.engine) == 0


async def test_a_cancelled_publish_leaves_the_wait_queue() -> None:
    async with serving(engine(max_hold_ms=HOUR_MS, **HOLDING)) as served:
        producer = number(await served.unary("Create", create("a")))
        await served.unary("Send", send(producer, 1000))
        held = served.unary("Send", send(producer, 1000))
        sending = asyncio.ensure_future(held)
        await until_so(lambda: waiting(served.engine) == 1)
        sending.cancel()
        await until_so(lambda: waiting(served.engine) == 0)
        assert served.broker.sent == 1


@pytest.mark.seed("S1-043")
async def test_counts_fall_when_the_handler_fails_or_the_call_is_cancelled_or_times_out() -> None:
    async with serving(engine(max_producers_per_topic=1)) as served:
        found = await refused(served.unary("Create", create("crash")))
        assert (found.code, producers(served.engine)) == (CODE.UNKNOWN, 0)
        cancelled = asyncio.ensure_future(served.unary("Create", create("hold")))
        await served.behaviors.blocked.wait()
        assert producers(served.engine) == 1
        cancelled.cancel()
        await until_so(lambda: producers(served.engine) == 0)
        found = await refused(served.unary("Create", create("hold"), timeout=0.1))
        assert found.code is CODE.DEADLINE_EXCEEDED
        await until_so(lambda: producers(served.engine) == 0)
        await served.unary("Create", create("b"))


async def test_a_known_producer_stays_when_its_second_call_fails() -> None:
    async with serving(engine(max_producers_per_topic=1)) as served:
        await served.unary("Create", create("a"))
        again = asyncio.ensure_future(served.unary("Create", message({1: TOPIC, 2: "a", 9: "hold"})))
        await served.behaviors.blocked.wait()
        again.cancel()
        await served.behaviors.cancelled.wait()
        await served.unary("Ping", message({1: 1}))
        assert producers(served.engine) == 1


async def test_a_client_that_detaches_frees_its_place() -> None:
    async with serving(engine(max_producers_per_topic=1)) as served:
        producer = number(await served.unary("Create", create("a")))
        await served.unary("Leave", message({1: producer}))
        await served.unary("Create", create("b"))


async def test_silent_clients_are_released_without_traffic_and_are_checked_when_they_return() -> None:
    async with serving(engine(max_producers_per_topic=1), ghost_release_s=60) as served:

        def silence(hours: int) -> None:
            with served.engine.lock:
                served.interceptor.enforcer._tick(monotonic_ns() + hours * HOUR_MS * 1_000_000)

        first = number(await served.unary("Create", create("a")))
        silence(1)
        assert producers(served.engine) == 0
        await served.unary("Send", send(first))
        assert producers(served.engine) == 1
        silence(2)
        assert producers(served.engine) == 0
        await served.unary("Create", create("b"))
        found = await refused(served.unary("Send", send(first)))
        assert found.code is CODE.NOT_FOUND
        assert found.text.startswith("Producer limit reached")


async def test_an_unassigned_id_is_not_found() -> None:
    async with serving(engine()) as served:
        found = await refused(served.unary("Send", send(7)))
        assert (found.code, found.text) == (
            CODE.NOT_FOUND,
            "The producer with id 7 does not exist. Create it again.",
        )
        assert served.broker.sent == 0


async def test_malformed_messages_are_refused() -> None:
    async with serving(engine()) as served:
        found = await refused(served.unary("Send", b"\x0a\xff"))
        assert (found.code, served.interceptor.enforcer.malformed) == (CODE.INVALID_ARGUMENT, 1)


async def test_unknown_methods_pass_and_are_counted() -> None:
    async with serving(engine(max_message_size=1)) as served:
        assert await served.unary("Other", b"\x0a\xff") == b""
        assert served.interceptor.enforcer.unknown_methods == 1


async def test_methods_that_the_map_lets_pass_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    methods = {**MAP.methods, P + "Other": Method(Role.PASS)}
    monkeypatch.setattr("tests.grpc.interceptors.aio.serving.MAP", MethodMap("service", methods))
    async with serving(engine(max_message_size=1)) as served:
        assert await served.unary("Other", b"\x0a\xff") == b""
        assert served.interceptor.enforcer.unknown_methods == 0


async def test_the_callable_names_exempt_principals() -> None:
    made = engine(max_producers_per_topic=1)
    made.config.__dict__["exempt"] = Exempt(principals=("root",))  # not in the default, which all share
    made.set_policies([settings(max_producers_per_topic=1)])

    def principal(context: Any) -> Any:
        return dict(tuple(context.invocation_metadata())).get("user", "nobody")

    sink = made._host.compiler._sink
    assert isinstance(sink, RecordingSink)
    async with serving(made, principal=principal) as served:
        await served.unary("Create", create("a"))
        await served.unary("Create", create("b"), metadata=(("user", "root"),))
        await refused(served.unary("Create", create("c"), metadata=(("user", "guest"),)))
    assert [record.op.principal for record in sink.records] == ["nobody", "root", "guest"]


async def receive(call: Any) -> list[int]:
    return [number(response) async for response in call]


@pytest.mark.seed("S1-071", "S1-076")
async def test_reliable_dispatch_is_paced_and_loses_nothing() -> None:
    made = engine(max_dispatch_rate=50, burst_seconds=0.1)
    async with serving(made, Broker(messages=30)) as served:
        await served.unary("Create", create("p", reliable=True))
        consumer = number(await served.unary("Subscribe", subscribe("c")))
        began = time.monotonic()
        assert await receive(served.stream("Receive", message({1: consumer}))) == list(range(1, 31))
        assert time.monotonic() - began >= 25 / 50


@pytest.mark.seed("S1-070", "S1-081")
async def test_unreliable_dispatch_drops_by_policy_and_counts_it() -> None:
    policies: dict[str, Any] = {
        "max_dispatch_rate": 1,
        "burst_seconds": 5,
        "on_limit__max_dispatch_rate": "drop",
    }
    async with serving(engine(**policies), Broker(messages=30)) as served:
        await served.unary("Create", create("p", reliable=False))
        consumer = number(await served.unary("Subscribe", subscribe("c")))
        got = await receive(served.stream("Receive", message({1: consumer})))
        with served.engine.lock:
            dropped = served.engine.gate(TOPIC, False, 0).state.dropped
        assert 5 <= len(got) < 30
        assert len(got) + dropped == 30


@pytest.mark.seed("S1-090")
async def test_unacknowledged_messages_pause_the_stream_until_they_are_acknowledged() -> None:
    made = engine(max_unacked_messages_per_consumer=2)
    async with serving(made, Broker(messages=6)) as served:
        consumer = number(await served.unary("Subscribe", subscribe("c")))
        call = served.stream("Receive", message({1: consumer}))
        got = [number(await call.read()), number(await call.read())]
        third = asyncio.ensure_future(call.read())
        await served.unary("Ping", message({1: consumer}))
        assert not third.done()
        for position in range(1, 7):
            await served.unary("Ack", message({1: TOPIC, 2: "s", 3: position}))
            if position < 5:
                got.append(number(await (third if position == 1 else call.read())))
        assert got == [1, 2, 3, 4, 5, 6]
        assert await call.read() is aio.EOF


async def test_a_fixed_delay_holds_messages_in_order_and_never_early() -> None:
    published_ms = time.time_ns() // 1_000_000
    made = engine(fixed_delivery_delay=300)
    async with serving(made, Broker(messages=3, published_ms=published_ms)) as served:
        consumer = number(await served.unary("Subscribe", subscribe("c")))
        assert await receive(served.stream("Receive", message({1: consumer}))) == [1, 2, 3]
        assert time.time_ns() // 1_000_000 >= published_ms + 300


async def test_a_consumer_whose_stream_breaks_frees_its_place_and_may_return() -> None:
    async with serving(engine(max_consumers_per_topic=1), Broker(messages=1)) as served:
        consumer = number(await served.unary("Subscribe", subscribe("c")))
        call = served.stream("Receive", message({1: consumer, 2: "stay"}))
        assert number(await call.read()) == 1
        await served.behaviors.blocked.wait()
        assert consumers(served.engine) == 1
        call.cancel()
        await until_so(lambda: consumers(served.engine) == 0)
        again = served.stream("Receive", message({1: consumer, 2: "stay"}))
        assert number(await again.read()) == 1
        assert consumers(served.engine) == 1
        again.cancel()
        await until_so(lambda: consumers(served.engine) == 0)
        await served.unary("Subscribe", subscribe("d"))
        found = await refused(served.stream("Receive", message({1: consumer})).read())
        assert found.code is CODE.NOT_FOUND
        assert found.text.startswith("Consumer limit per topic reached")


async def test_a_consumer_whose_client_disconnects_frees_its_place() -> None:
    async with serving(engine(max_consumers_per_topic=1), Broker(messages=1)) as served:
        consumer = number(await served.unary("Subscribe", subscribe("c")))
        async with served.other_channel() as other:
            call = other.unary_stream(P + "Receive")(message({1: consumer, 2: "stay"}))
            assert number(await call.read()) == 1
            await served.behaviors.blocked.wait()
        await until_so(lambda: consumers(served.engine) == 0)


async def test_a_consumer_is_released_when_its_handler_crashes_but_not_when_its_stream_ends() -> None:
    async with serving(engine(max_consumers_per_topic=1), Broker(messages=1)) as served:
        consumer = number(await served.unary("Subscribe", subscribe("c")))
        assert await receive(served.stream("Receive", message({1: consumer}))) == [1]
        assert consumers(served.engine) == 1
        with pytest.raises(aio.AioRpcError, match="crash"):
            await receive(served.stream("Receive", message({1: consumer, 2: "crash"})))
        await until_so(lambda: consumers(served.engine) == 0)


async def test_an_unknown_consumer_is_not_found() -> None:
    async with serving(engine()) as served:
        found = await refused(served.stream("Receive", message({1: 9})).read())
        assert found.code is CODE.NOT_FOUND


async def test_a_stream_that_subscribes_itself_counts_for_as_long_as_it_is_open() -> None:
    made = engine(max_consumers_per_topic=1, max_dispatch_rate=1000)
    async with serving(made, Broker(messages=3)) as served:
        follow = served.channel.stream_stream(P + "Follow")
        call = follow()
        await call.write(subscribe("c"))
        assert [number(await call.read()) for _ in range(3)] == [1, 2, 3]
        second = follow()
        await second.write(subscribe("d"))
        found = await refused(second.read())
        assert found.code is CODE.RESOURCE_EXHAUSTED
        await call.done_writing()
        assert await call.read() is aio.EOF
        await until_so(lambda: consumers(served.engine) == 0)


async def test_a_stream_without_a_first_request_is_refused() -> None:
    async with serving(engine()) as served:
        call = served.channel.stream_stream(P + "Follow")()
        await call.done_writing()
        assert (await refused(call.read())).code is CODE.INVALID_ARGUMENT


@pytest.mark.parametrize("method", ["SendAll", "Talk"])
async def test_a_stream_of_publishes_is_policed_message_by_message(method: str) -> None:
    async with serving(engine(max_message_size=100)) as served:
        kind = served.channel.stream_unary if method == "SendAll" else served.channel.stream_stream
        call = kind(P + method)(iter([message({1: TOPIC, 2: b"x" * size}) for size in (100, 100, 101)]))
        with pytest.raises(aio.AioRpcError) as caught:
            await (call if method == "SendAll" else receive(call))
        assert told(caught.value).code is CODE.INVALID_ARGUMENT
        assert served.broker.sent == 2


async def test_a_stream_of_publishes_is_paced_where_the_policy_delays() -> None:
    policies: dict[str, Any] = {
        "max_publish_rate": 40,
        "burst_seconds": 0.05,
        "on_limit__max_publish_rate": "delay",
    }
    async with serving(engine(**policies)) as served:
        began = time.monotonic()
        requests = iter([message({1: TOPIC, 2: b"x"})] * 22)
        assert number(await served.channel.stream_unary(P + "SendAll")(requests)) == 22
        assert time.monotonic() - began >= 0.5 - 0.05


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_role_that_does_not_fit_its_method_is_rejected(streaming: bool) -> None:
    async def behavior(request: bytes, context: Any) -> bytes:
        return b""

    role = Role.SUBSCRIBE if streaming else Role.DISPATCH
    make = grpc.unary_stream_rpc_method_handler if streaming else grpc.unary_unary_rpc_method_handler
    handler: Any = make(behavior)

    class Details:
        method = P + "M"

    async def continuation(_: Any) -> Any:
        return handler

    with engine() as made:
        payload = () if streaming else (4,)
        method = Method(role, topic=(1,), subscription=(2,), consumer=(3,), payload=payload)
        interceptor = PolicyServerInterceptor(made, MethodMap("service", {P + "M": method}))
        with pytest.raises(ValueError, match="role DISPATCH"):
            await interceptor.intercept_service(continuation, Details())  # type: ignore[arg-type]


def test_the_map_of_these_tests_names_the_service() -> None:
    assert all(name.startswith(f"/{SERVICE}/") for name in MAP.methods)


async def test_an_attaching_call_may_end_with_a_code_alone() -> None:
    """grpc.aio lets handlers return nothing then, and no serializer is asked."""

    async def taken(request: bytes, context: Any) -> None:
        context.set_code(CODE.ALREADY_EXISTS)

    handler: Any = grpc.unary_unary_rpc_method_handler(taken, response_serializer=bytes)
    async with serving(engine(max_consumers_per_topic=1), handlers={"Subscribe": handler}) as served:
        found = await refused(served.unary("Subscribe", subscribe("a", "new")))
        assert found.code is CODE.ALREADY_EXISTS
