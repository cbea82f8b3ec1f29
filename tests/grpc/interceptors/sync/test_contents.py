"""Policies that read messages and change their headers, in servers and channels with threads."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import grpc
import pytest
from tests.grpc.interceptors.messages import Opaque, bytes_of, with_headers
from tests.grpc.interceptors.sync.serving import Served, refused, serving
from tests.grpc.interceptors.sync.test_client import policed
from tests.grpc.lab import P, create, engine, number

from sluicegate.embedded import PolicyEngine

Door = Callable[[PolicyEngine], AbstractContextManager[Served]]


@pytest.fixture(params=["server", "client"])
def door(request: pytest.FixtureRequest) -> Door:
    """A server with the interceptor, or a channel with it."""
    return serving if request.param == "server" else policed


def test_a_publish_without_a_required_header_is_refused(door: Door) -> None:
    with door(engine(required_headers="trace")) as served:
        producer = number(served.unary("Create", create("a")))
        served.unary("Send", with_headers("trace", producer=producer))
        error = refused(served.unary, "Send", with_headers(producer=producer))
        assert (error.code, error.info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "REQUIRED_HEADERS")
        assert served.broker.sent == 1


def test_a_header_is_removed(door: Door) -> None:
    with door(engine(remove_headers="x-*")) as served:
        producer = number(served.unary("Create", create("a")))
        served.unary("Send", with_headers("x-a", "b", producer=producer))
        assert served.broker.last == with_headers("b", producer=producer)


def test_a_header_is_removed_from_each_message_of_a_stream(door: Door) -> None:
    with door(engine(remove_headers="x")) as served:
        served.channel.stream_unary(P + "SendAll")(iter([with_headers("x"), with_headers("x", "b")]))
        assert served.broker.last == with_headers("b")
        assert list(served.channel.stream_stream(P + "Talk")(iter([with_headers("x", "c")])))
        assert served.broker.last == with_headers("c")


def test_a_delayed_message_is_changed_once_it_passes(door: Door) -> None:
    policies: dict[str, Any] = {
        "max_publish_rate": 5,
        "burst_seconds": 0.2,
        "on_limit__max_publish_rate": "delay",
    }
    with door(engine(remove_headers="x", **policies)) as served:
        producer = number(served.unary("Create", create("a")))
        for _ in range(2):
            served.unary("Send", with_headers("x", "b", producer=producer))
            assert served.broker.last == with_headers("b", producer=producer)


def test_headers_that_cannot_be_changed_are_refused_not_passed() -> None:
    class Encoding(Opaque):
        """A message that can be encoded, and not made."""

        def SerializeToString(self) -> bytes:  # noqa: N802
            return self.data

    with policed(engine(remove_headers="x")) as served:
        producer = number(served.unary("Create", create("a")))
        send = served.channel.unary_unary(P + "Send", request_serializer=bytes_of)
        error = refused(send, Encoding(with_headers("x", producer=producer)))
        assert "cannot be changed: Encoding is no class of protobuf messages" in error.text
        assert served.broker.sent == 0
