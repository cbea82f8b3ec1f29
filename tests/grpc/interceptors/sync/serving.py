"""A tiny broker on gRPC's server with threads."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from tests.grpc.lab import MAP, Broker, P, handlers, message, told

from sluicegate.embedded import PolicyEngine
from sluicegate_grpc.sync import PolicyServerInterceptor


class Behaviors:
    """The broker's handlers; `hold` in a request keeps it waiting, `stay` keeps a stream open."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.blocked = threading.Event()
        self.go = threading.Event()
        self.ended = threading.Event()
        """Set once a call that was kept waiting has ended, its handler aside."""

    def Create(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        if b"hold" in request:
            context.add_callback(self.ended.set)
            self.blocked.set()
            self.go.wait()
        return self.broker.attach(request)

    Subscribe = Create

    def Send(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        return self.broker.publish(request)

    def SendAll(self, requests: Iterator[bytes], context: Any) -> bytes:  # noqa: N802
        for request in requests:
            self.broker.publish(request)
        return message({1: self.broker.sent})

    def Talk(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:  # noqa: N802
        for request in requests:
            self.broker.publish(request)
            yield message({1: self.broker.sent})

    def Receive(self, request: bytes, context: Any) -> Iterator[bytes]:  # noqa: N802
        yield from self.broker.deliveries()
        if b"stay" in request:
            self.blocked.set()
            self.go.wait()
        if b"crash" in request:
            raise RuntimeError("crash")

    def Follow(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:  # noqa: N802
        yield from self.broker.deliveries()
        for _ in requests:
            pass

    def Ack(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        return b""

    Ping = Leave = Other = Ack


class Served:
    """A running server and a channel to it."""

    def __init__(self, engine: PolicyEngine, broker: Broker, interceptors: Any) -> None:
        self.engine = engine
        self.broker = broker
        self.behaviors = Behaviors(broker)
        self.interceptors = interceptors
        self.port = 0
        self.channel: Any

    def unary(self, name: str, request: bytes, **options: Any) -> bytes:
        answer: bytes = self.channel.unary_unary(P + name)(request, **options)
        return answer

    def future(self, name: str, request: bytes, **options: Any) -> Any:
        return self.channel.unary_unary(P + name).future(request, **options)

    def stream(self, name: str, request: bytes) -> Any:
        return self.channel.unary_stream(P + name)(request)


@contextmanager
def serving(
    engine: PolicyEngine,
    broker: Broker | None = None,
    threads: int = 10,
    *,
    policed: bool = True,
    **options: Any,
) -> Iterator[Served]:
    interceptors: Any = [PolicyServerInterceptor(engine, MAP, **options)] if policed else []
    served = Served(engine, broker or Broker(), interceptors)
    with ThreadPoolExecutor(threads) as pool:
        server = grpc.server(pool, interceptors=interceptors)
        server.add_generic_rpc_handlers((handlers(served.behaviors),))
        served.port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
                served.channel = channel
                yield served
        finally:
            served.behaviors.go.set()
            server.stop(None).wait()
            engine.close()


def refused(call: Any, *arguments: Any, **options: Any) -> Any:
    """What a call that fails tells its client."""
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, **options)
    return told(caught.value)


def too_late(served: Served, request: bytes) -> None:
    """Make a call that the handler holds until its deadline: the deadline is longer if it came too soon."""
    served.behaviors.blocked.clear()
    timeout_s = 0.1
    while not served.behaviors.blocked.is_set():
        found = refused(served.unary, "Create", request, timeout=timeout_s)
        assert found.code is grpc.StatusCode.DEADLINE_EXCEEDED
        timeout_s *= 2
