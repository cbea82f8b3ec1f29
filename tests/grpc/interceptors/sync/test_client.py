"""The interceptor in a channel with threads, before a broker that has no policies."""

import queue
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from tests.grpc.interceptors.sync.serving import Served, refused, serving
from tests.grpc.lab import (
    MAP,
    TOPIC,
    Broker,
    P,
    consumers,
    create,
    engine,
    message,
    number,
    producers,
    send,
    subscribe,
    told,
)
from tests.waiting import until

from sluicegate.embedded import PolicyEngine
from sluicegate_grpc.sync import PolicyClientInterceptor

CODE = grpc.StatusCode


@contextmanager
def policed(made: PolicyEngine, broker: Broker | None = None, **options: Any) -> Iterator[Served]:
    with serving(made, broker, policed=False) as served:
        interceptor = PolicyClientInterceptor(made, MAP, **options)
        served.channel = grpc.intercept_channel(served.channel, interceptor)
        yield served


def receive(call: Any) -> list[int]:
    return [number(response) for response in call]


def test_producers_over_the_limit_are_refused_before_the_call_is_sent() -> None:
    with policed(engine(max_producers_per_topic=1)) as served:
        assert number(served.unary("Create", create("a"))) == 1
        found = refused(served.unary, "Create", create("b"))
        assert (found.code, found.info.reason) == (CODE.RESOURCE_EXHAUSTED, "MAX_PRODUCERS_PER_TOPIC")
        assert served.broker.last_id == 1
        assert number(served.future("Create", create("a")).result()) == 2
        assert isinstance(served.future("Create", create("b")).exception(), grpc.RpcError)


def test_a_refused_future_has_the_status_of_a_refused_call() -> None:
    with policed(engine(max_producers_per_topic=1, max_message_size=100)) as served:
        served.unary("Create", create("a"))
        wrong_size = message({1: TOPIC, 2: b"x" * 101})
        for future, code in (
            (served.future("Create", create("b")), CODE.RESOURCE_EXHAUSTED),
            (served.future("Send", send(99)), CODE.NOT_FOUND),
            (served.channel.stream_unary(P + "SendAll").future(iter([wrong_size])), CODE.INVALID_ARGUMENT),
        ):
            assert (future.done(), future.cancelled(), future.running()) == (True, False, False)
            assert future.code() is code
            found = told(future)
            assert found.code is told(future.exception()).code is refused(future.result).code is code
            assert found.info is not None
            assert future.cancel() is False
            called: list[object] = []
            future.add_done_callback(called.append)
            assert called == [future]


def test_a_refused_stream_has_its_status_at_once_and_when_it_is_read() -> None:
    with policed(engine(max_consumers_per_topic=1)) as served:
        call = served.stream("Receive", message({1: 99}))
        assert call.code() is CODE.NOT_FOUND
        assert told(call).info is not None
        assert refused(next, call).code is CODE.NOT_FOUND


def test_counts_fall_when_the_broker_refuses_or_the_call_times_out() -> None:
    with policed(engine(max_producers_per_topic=1)) as served:
        assert refused(served.unary, "Create", create("crash")).code is CODE.UNKNOWN
        assert producers(served.engine) == 0
        assert refused(served.unary, "Create", create("hold"), timeout=0.1).code is CODE.DEADLINE_EXCEEDED
        assert producers(served.engine) == 0


def test_publishes_are_refused_and_delayed() -> None:
    policies: dict[str, Any] = {
        "max_message_size": 100,
        "max_publish_rate": 20,
        "burst_seconds": 0.05,
        "on_limit__max_publish_rate": "delay",
    }
    with policed(engine(**policies)) as served:
        assert refused(served.unary, "Send", send(1)).code is CODE.NOT_FOUND
        producer = number(served.unary("Create", create("a")))
        assert refused(served.unary, "Send", send(producer, 101)).code is CODE.INVALID_ARGUMENT
        began = time.monotonic()
        for _ in range(6):
            served.unary("Send", send(producer))
        assert time.monotonic() - began >= 0.25
        assert served.broker.sent == 6


def test_a_client_that_detaches_frees_its_place_and_other_calls_pass() -> None:
    with policed(engine(max_producers_per_topic=1)) as served:
        producer = number(served.unary("Create", create("a")))
        for name in ("Ping", "Ack", "Other"):
            assert served.unary(name, message({1: producer})) == b""
        served.unary("Leave", message({1: producer}))
        assert producers(served.engine) == 0


def test_deliveries_are_paced_without_loss() -> None:
    with policed(engine(max_dispatch_rate=50, burst_seconds=0.1), Broker(messages=30)) as served:
        consumer = number(served.unary("Subscribe", subscribe("c")))
        began = time.monotonic()
        assert receive(served.stream("Receive", message({1: consumer}))) == list(range(1, 31))
        assert time.monotonic() - began >= 25 / 50


def test_a_consumer_whose_stream_is_cancelled_frees_its_place() -> None:
    with policed(engine(max_consumers_per_topic=1), Broker(messages=1)) as served:
        consumer = number(served.unary("Subscribe", subscribe("c")))
        call = served.stream("Receive", message({1: consumer, 2: "stay"}))
        assert number(next(call)) == 1
        call.cancel()
        until(lambda: consumers(served.engine) == 0)
        assert refused(receive, served.stream("Receive", message({1: 99}))).code is CODE.NOT_FOUND


def test_a_stream_that_subscribes_itself_counts_for_as_long_as_it_is_open() -> None:
    with policed(engine(max_consumers_per_topic=1), Broker(messages=2)) as served:
        follow = served.channel.stream_stream(P + "Follow")
        requests: queue.Queue[bytes | None] = queue.Queue()
        requests.put(subscribe("c"))
        call = follow(iter(requests.get, None))
        assert [number(next(call)), number(next(call))] == [1, 2]
        assert refused(receive, follow(iter([subscribe("d")]))).code is CODE.RESOURCE_EXHAUSTED
        requests.put(None)
        assert receive(call) == []
        until(lambda: consumers(served.engine) == 0)


@pytest.mark.parametrize("method", ["SendAll", "Talk"])
def test_a_stream_of_publishes_ends_with_the_first_that_is_refused(method: str) -> None:
    with policed(engine(max_message_size=100)) as served:

        def requests(*sizes: int) -> Iterator[bytes]:
            return (message({1: TOPIC, 2: b"x" * size}) for size in sizes)

        def call(sent: Iterator[bytes]) -> Any:
            if method == "SendAll":
                return served.channel.stream_unary(P + method)(sent)
            return receive(served.channel.stream_stream(P + method)(sent))

        call(requests(1, 2, 3))
        assert served.broker.sent == 3
        assert refused(call, requests(100, 101)).code is CODE.INVALID_ARGUMENT
