"""Metadata that the gateway adds to requests, or takes from them."""

import pytest
from tests.grpc.proxy.splice.oracle import service
from tests.grpc.proxy.splice.talk import TOPIC, Talk, front

from sluicegate_grpc.proxy.edits import Edits, why_not


def edited(max_message_size: int = 0) -> Talk:
    shared = front(max_message_size=max_message_size)
    shared.rules.edits = Edits({"x-tenant": "blue", "x-gate": "a"}, frozenset({"x-debug"}))
    return Talk(shared)


def test_the_broker_gets_the_headers_as_they_are_edited() -> None:
    talk = edited()
    calls = [
        talk.call(
            service.OTHER,
            b"",
            ("x-tenant", "red"),
            ("x-debug", "1"),
            ("x", "y"),
            ("grpc-timeout", f"{each}m"),
        )
        for each in range(900, 903)
    ]
    for stream, timeout in zip(calls, ("900m", "901m", "902m"), strict=True):
        seen = talk.wire.server.seen[stream].headers
        assert (seen["x-tenant"], seen["x-gate"], seen["x"]) == ("blue", "a", "y")
        assert seen["grpc-timeout"] == timeout
        assert "x-debug" not in seen


def test_policies_hold_for_edited_requests() -> None:
    talk = edited(max_message_size=5)
    talk.attach()
    refused = talk.call(service.PUBLISH, service.publish(TOPIC, 7, b"x" * 6))
    passed = talk.call(service.PUBLISH, service.publish(TOPIC, 7, b"x" * 5))
    assert talk.refused(refused)[0] == "3"
    assert talk.wire.server.seen[passed].headers["x-gate"] == "a"
    assert refused not in talk.wire.server.seen


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("X-Tenant", ""),
        (":path", "/a"),
        ("", ""),
        ("te", "gzip"),
        ("grpc-timeout", "1S"),
        ("content-type", "x"),
        ("x-bin", ""),
        ("x", "a\r\nb: c"),
        ("x", "ä"),
    ],
)
def test_headers_that_a_request_needs_cannot_be_edited(key: str, value: str) -> None:
    assert why_not(key, value)


def test_usual_metadata_can_be_edited() -> None:
    assert why_not("x-tenant", "blue and green") == ""
