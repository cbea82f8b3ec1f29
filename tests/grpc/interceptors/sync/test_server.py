"""The interceptor in a server with threads, with real channels."""

import queue
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from tests.grpc.interceptors.sync.serving import refused, serving, too_late
from tests.grpc.lab import (
    HOLDING,
    HOUR_MS,
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
    subscribe,
    waiting,
)
from tests.waiting import until

CODE = grpc.StatusCode


def receive(call: Any) -> list[int]:
    return [number(response) for response in call]


def test_producers_over_the_limit_are_refused_with_code_text_and_details() -> None:
    with serving(engine(max_producers_per_topic=1)) as served:
        assert number(served.unary("Create", create("a"))) == 1
        found = refused(served.unary, "Create", create("b"))
        assert found.code is CODE.RESOURCE_EXHAUSTED
        assert found.text.startswith(f"Producer limit reached for topic {TOPIC}. Current: 1, Limit: 1.")
        assert found.info.reason == "MAX_PRODUCERS_PER_TOPIC"
        assert found.violations == [f"topic:{TOPIC}"]


@pytest.mark.seed("S1-042")
def test_racing_producers_never_exceed_the_limit() -> None:
    with serving(engine(max_producers_per_topic=37)) as served:
        calls = [served.future("Create", create(f"p{number}")) for number in range(1000)]
        assert Counter(call.code() for call in calls) == {CODE.OK: 37, CODE.RESOURCE_EXHAUSTED: 963}
        assert 37 == served.broker.last_id == producers(served.engine)


def test_counts_fall_when_the_handler_fails_or_the_call_is_cancelled_or_times_out() -> None:
    with serving(engine(max_producers_per_topic=1)) as served:
        assert refused(served.unary, "Create", create("crash")).code is CODE.UNKNOWN
        assert producers(served.engine) == 0
        cancelled = served.future("Create", create("hold"))
        served.behaviors.blocked.wait()
        assert producers(served.engine) == 1
        cancelled.cancel()
        served.behaviors.ended.wait()
        served.behaviors.go.set()  # a handler in a thread is not stopped: its place is kept until it ends
        until(lambda: producers(served.engine) == 0)
        served.behaviors.go.clear()
        served.behaviors.ended.clear()
        too_late(served, create("hold"))
        served.behaviors.ended.wait()
        served.behaviors.go.set()
        until(lambda: producers(served.engine) == 0)


def test_subscriptions_that_the_broker_lists_count() -> None:
    with serving(engine(max_subscriptions_per_topic=1), list_subscriptions=lambda topic: ["old"]) as served:
        found = refused(served.unary, "Subscribe", subscribe("a", "new"))
        assert found.info.reason == "MAX_SUBSCRIPTIONS_PER_TOPIC"
        served.unary("Subscribe", subscribe("a", "old"))


def test_publishes_are_refused_by_size_and_rate() -> None:
    with serving(engine(max_message_size=100, **burst_of(1))) as served:
        producer = number(served.unary("Create", create("a")))
        assert refused(served.unary, "Send", send(producer, 101)).code is CODE.INVALID_ARGUMENT
        served.unary("Send", send(producer, 100))
        found = refused(served.unary, "Send", send(producer, 100))
        assert (found.code, found.info.reason) == (CODE.RESOURCE_EXHAUSTED, "MAX_PUBLISH_RATE")
        assert 0 < found.retry_s <= 4096
        assert refused(served.unary, "Send", send(99)).code is CODE.NOT_FOUND
        assert served.broker.sent == 1


def test_a_publish_can_be_delayed() -> None:
    policies: dict[str, Any] = {
        "max_publish_rate": 20,
        "burst_seconds": 0.05,
        "on_limit__max_publish_rate": "delay",
    }
    with serving(engine(**policies)) as served:
        producer = number(served.unary("Create", create("a")))
        began = time.monotonic()
        for _ in range(6):
            served.unary("Send", send(producer))
        assert time.monotonic() - began >= 0.25
        assert served.broker.sent == 6


def test_a_cancelled_publish_leaves_the_wait_queue() -> None:
    with serving(engine(max_hold_ms=HOUR_MS, **HOLDING)) as served:
        producer = number(served.unary("Create", create("a")))
        served.unary("Send", send(producer, 1000))
        held = served.future("Send", send(producer, 1000))
        until(lambda: waiting(served.engine) == 1)
        held.cancel()
        until(lambda: waiting(served.engine) == 0)
        assert served.broker.sent == 1


def test_a_detached_or_silent_client_frees_its_place() -> None:
    with serving(engine(max_producers_per_topic=1), ghost_release_s=0.2) as served:
        producer = number(served.unary("Create", create("a")))
        served.unary("Leave", message({1: producer}))
        served.unary("Create", create("b"))
        until(lambda: producers(served.engine) == 0)


def test_unknown_methods_pass_and_malformed_messages_are_refused() -> None:
    with serving(engine()) as served:
        assert served.unary("Other", b"\x0a\xff") == b""
        assert refused(served.unary, "Send", b"\x0a\xff").code is CODE.INVALID_ARGUMENT
        enforcer = served.interceptors[0].enforcer
        assert (enforcer.unknown_methods, enforcer.malformed) == (1, 1)


def test_reliable_dispatch_is_paced_and_loses_nothing() -> None:
    with serving(engine(max_dispatch_rate=50, burst_seconds=0.1), Broker(messages=30)) as served:
        consumer = number(served.unary("Subscribe", subscribe("c")))
        began = time.monotonic()
        assert receive(served.stream("Receive", message({1: consumer}))) == list(range(1, 31))
        assert time.monotonic() - began >= 25 / 50


def test_unreliable_dispatch_drops_by_policy() -> None:
    policies: dict[str, Any] = {
        "max_dispatch_rate": 1,
        "burst_seconds": 5,
        "on_limit__max_dispatch_rate": "drop",
    }
    with serving(engine(**policies), Broker(messages=30)) as served:
        served.unary("Create", create("p", reliable=False))
        consumer = number(served.unary("Subscribe", subscribe("c")))
        got = receive(served.stream("Receive", message({1: consumer})))
        with served.engine.lock:
            dropped = served.engine.gate(TOPIC, False, 0).state.dropped
        assert 5 <= len(got) < 30
        assert len(got) + dropped == 30


def test_unacknowledged_messages_pause_the_stream_until_they_are_acknowledged() -> None:
    with serving(engine(max_unacked_messages_per_consumer=1), Broker(messages=3)) as served:
        consumer = number(served.unary("Subscribe", subscribe("c")))
        call = served.stream("Receive", message({1: consumer}))
        for position in (1, 2, 3):
            assert number(next(call)) == position
            with served.engine.lock:
                state = served.engine.gate(TOPIC, False, 0).state
                assert state.subscription("s").unacked == {"c": 1}
            served.unary("Ack", message({1: TOPIC, 2: "s", 3: position}))
        assert receive(call) == []


def test_a_fixed_delay_is_never_early() -> None:
    published_ms = time.time_ns() // 1_000_000
    with serving(engine(fixed_delivery_delay=300), Broker(messages=3, published_ms=published_ms)) as served:
        consumer = number(served.unary("Subscribe", subscribe("c")))
        assert receive(served.stream("Receive", message({1: consumer}))) == [1, 2, 3]
        assert time.time_ns() // 1_000_000 >= published_ms + 300


def test_a_consumer_whose_stream_breaks_frees_its_place_at_once_and_may_return() -> None:
    with serving(engine(max_consumers_per_topic=1), Broker(messages=1)) as served:
        consumer = number(served.unary("Subscribe", subscribe("c")))
        call = served.stream("Receive", message({1: consumer, 2: "stay"}))
        assert number(next(call)) == 1
        served.behaviors.blocked.wait()
        assert consumers(served.engine) == 1
        call.cancel()  # the handler hangs on, and does not count
        until(lambda: consumers(served.engine) == 0)
        assert receive(served.stream("Receive", message({1: consumer}))) == [1]
        assert consumers(served.engine) == 1
        assert (
            refused(receive, served.stream("Receive", message({1: consumer, 2: "crash"}))).code
            is CODE.UNKNOWN
        )
        until(lambda: consumers(served.engine) == 0)


def test_a_paused_stream_that_is_cancelled_ends() -> None:
    with serving(engine(max_unacked_messages_per_consumer=1), Broker(messages=2), threads=2) as served:
        consumer = number(served.unary("Subscribe", subscribe("c")))
        call = served.stream("Receive", message({1: consumer}))
        assert number(next(call)) == 1
        call.cancel()
        until(lambda: consumers(served.engine) == 0)
    # The server has stopped, so no thread waits for the acknowledgement.


def test_a_stream_that_subscribes_itself_counts_for_as_long_as_it_is_open() -> None:
    with serving(engine(max_consumers_per_topic=1), Broker(messages=2)) as served:
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
def test_a_stream_of_publishes_is_policed_message_by_message(method: str) -> None:
    with serving(engine(max_message_size=100)) as served:

        def requests(*sizes: int) -> Iterator[bytes]:
            return (message({1: TOPIC, 2: b"x" * size}) for size in sizes)

        if method == "SendAll":
            call = served.channel.stream_unary(P + method)
        else:
            talk = served.channel.stream_stream(P + method)

            def call(sent: Iterator[bytes]) -> Any:
                return receive(talk(sent))

        call(requests(1, 2, 3))
        assert refused(call, requests(100, 101)).code is CODE.INVALID_ARGUMENT
        assert served.broker.sent == 4
