"""Requests that are refused before they have ended: the client may finish what is under way."""

import pytest
from tests.grpc.proxy.splice.oracle import service
from tests.grpc.proxy.splice.talk import PUBLISH, TOPIC, Talk, front

from sluicegate_grpc.proxy.splice import Limits
from sluicegate_grpc.proxy.splice.frames import window_update

NO_ERROR = 0
REST = 1 << 20
"""What a client may still send."""


def refused(size: int, sent: int, limits: Limits | None = None) -> tuple[Talk, int]:
    """A publish that is refused by its size after some of its bytes; the talk and its stream."""
    talk = Talk(front(max_message_size=100, limits=limits))
    talk.attach()
    stream = talk.call(PUBLISH, service.publish(TOPIC, 7, b"x" * size)[:sent], end=False)
    assert talk.refused(stream)[0] == "3"
    return talk, stream


def test_a_client_may_finish_a_request_that_was_refused() -> None:
    talk, stream = refused(200_000, 40)
    talk.send(stream, bytes(200_000), end=True)
    assert talk.client(stream).reset is None
    assert talk.wire.server.seen.get(stream) is None
    assert not talk.session._policed._refusals.discarded
    talk.publish()
    talk.hang_up()


def test_a_client_whose_window_was_used_up_may_finish() -> None:
    talk, stream = refused(200_000, 16_384)
    assert talk.wire.client.h2.local_flow_control_window(stream) == 65_535
    talk.send(stream, bytes(184_000), end=True)
    assert talk.client(stream).reset is None
    talk.hang_up()


def test_a_client_that_sends_on_and_on_is_reset() -> None:
    talk, stream = refused(100_000_000, 40)
    talk.send(stream, bytes(REST - 1))
    assert talk.client(stream).reset is None
    talk.send(stream, b"x")
    assert talk.client(stream).reset == NO_ERROR
    assert talk.wire.server.seen.get(stream) is None
    talk.publish()
    talk.hang_up()


def test_a_client_may_finish_a_request_that_was_refused_by_its_headers() -> None:
    talk = Talk(front())
    stream = talk.call("/t.Broker/Anything", b"", ("x-broker", "nowhere:1"), end=False)
    assert talk.refused(stream)[0] == "7"
    talk.send(stream, bytes(100_000), end=True)
    assert talk.client(stream).reset is None
    talk.hang_up()


def test_a_client_that_ends_refused_requests_by_resets_is_no_flood() -> None:
    talk, first = refused(1_000, 40, Limits(resets=3))
    for _ in range(5):
        stream = talk.call(PUBLISH, service.publish(TOPIC, 7, b"x" * 1_000)[:40], end=False)
        assert talk.refused(stream)[0] == "3"
        talk.wire.client.h2.reset_stream(stream, error_code=NO_ERROR)
        talk.wire.settle()
    assert talk.wire.closed is None
    talk.send(first, b"", end=True)
    talk.hang_up()


def test_clients_that_send_on_and_on_are_a_flood() -> None:
    talk, stream = refused(100_000_000, 40, Limits(resets=1))
    talk.send(stream, bytes(REST))
    stream = talk.call(PUBLISH, service.publish(TOPIC, 7, b"x" * 1_000)[:40], end=False)
    with pytest.raises(AssertionError, match="the window is shut"):
        talk.send(stream, bytes(2 * REST))
    assert talk.wire.closed is not None
    assert talk.wire.closed.counter == "resets_flood"


@pytest.mark.parametrize("why", ["its size", "its broker", "GOAWAY"])
def test_a_late_window_update_of_a_refused_request_does_not_reach_the_broker(why: str) -> None:
    talk = Talk(front(max_message_size=100))
    talk.attach()
    open_call = talk.call("/t.Other/Anything", b"", end=False)
    if why == "GOAWAY":
        talk.wire.carry_out(talk.session.ending(talk.wire.now))
        talk.wire.settle()
    asked = [("x-broker", "nowhere:1")] if why == "its broker" else []
    stream = talk.call(PUBLISH, service.publish(TOPIC, 7, b"x" * 200), *asked)
    for each in (stream, open_call):
        talk.wire.to_gate.put(window_update(each, 5))
    talk.wire.settle()  # h2 raises if a stream that it does not know gets one
    assert stream not in talk.wire.server.seen
    assert talk.wire.server.h2.streams[open_call].outbound_flow_control_window == 65_535 + 5
    talk.hang_up()


def test_a_stream_that_was_forwarded_in_part_is_reset_at_once() -> None:
    talk = Talk(front(max_message_size=100))
    talk.attach()
    stream = talk.publish(end=False)
    talk.send(stream, service.publish(TOPIC, 7, b"x" * 1_000)[:40])
    assert talk.client(stream).status == "3"
    assert talk.client(stream).reset == NO_ERROR  # the broker may owe it some of its window
    talk.hang_up()
