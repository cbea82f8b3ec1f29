"""Responses that end without a status: the page of a load balancer between the gateway and the broker."""

import pytest
from tests.bench import SECOND
from tests.grpc.proxy.splice.oracle import service
from tests.grpc.proxy.splice.talk import (
    ATTACH,
    LOOKUP,
    PUBLISH,
    RECEIVE,
    SUBSCRIBE,
    TOPIC,
    Talk,
    delivered,
    front,
)

from sluicegate_grpc.proxy.splice import Limits

OTHER = "/t.Other/Anything"
HTML = b"<html>bad gateway</html>"


def page(talk: Talk, stream: int, body: bytes = HTML, pad: int | None = None) -> None:
    """An answer that is no gRPC response."""
    h2 = talk.wire.server.h2
    h2.send_headers(stream, [(":status", "502"), ("content-type", "text/html")])
    h2.send_data(stream, body, end_stream=True, pad_length=pad)
    talk.wire.settle()


def seen(talk: Talk, stream: int) -> tuple[bytes, bool]:
    """What a client has of an answer, and whether it has ended."""
    client = talk.client(stream)
    assert client.reset is None
    return bytes(client.data), client.is_over


def is_idle(talk: Talk) -> bool:
    """Whether a session follows no stream."""
    down = talk.session._down
    assert not talk.session._responses.watchers
    return not (talk.session.open_calls or talk.session.held_bytes or down.watched or down.flow.outlets)


@pytest.mark.parametrize("body", [HTML, b""])
@pytest.mark.parametrize("path", [OTHER, PUBLISH, LOOKUP])
def test_a_call_has_ended(path: str, body: bytes) -> None:
    talk = Talk(front(limits=Limits(max_streams=2)))
    for _ in range(5):
        stream = talk.call(path, service.publish(TOPIC, 7, b"x"))
        page(talk, stream, body)
        assert seen(talk, stream) == (body, True)
    assert is_idle(talk)
    talk.hang_up()


def test_a_graceful_end_does_not_wait() -> None:
    talk = Talk()
    stream = talk.call(OTHER, b"x")
    page(talk, stream)
    talk.wire.carry_out(talk.session.ending(talk.wire.now))
    assert talk.wire.closed is not None


def test_a_call_that_attaches_leaves_its_place() -> None:
    talk = Talk(front(max_producers_per_topic=1))
    stream = talk.call(ATTACH, service.message((1, TOPIC), (2, "p"), (3, 1)))
    page(talk, stream)
    assert seen(talk, stream) == (HTML, True)
    assert talk.producers() == 0
    talk.attach("q")
    assert talk.producers() == 1
    assert is_idle(talk)
    talk.hang_up()


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("status", ["", "8"])
def test_headers_without_a_status_are_no_refusal_of_the_broker(status: str, alone: bool) -> None:
    shared = front(list_valid_ns=3_600 * SECOND, max_subscriptions_per_topic=1)
    shared.brokers.question = lambda topic: ("subscriptions of", topic)
    talk = Talk(shared)
    talk.shared.calls.attachments.listed(TOPIC, [], talk.wire.now, talk.wire.now)
    stream = talk.call(SUBSCRIBE, service.message((1, TOPIC), (2, "c"), (3, "s")))
    headers = [(":status", "503"), ("content-type", "text/html")]
    last = [("grpc-status", status)] if status else [("server", "proxy")]
    h2 = talk.wire.server.h2
    if not alone:
        h2.send_headers(stream, headers)
    h2.send_headers(stream, [*headers, *last] if alone else last, end_stream=True)
    talk.wire.settle()
    assert talk.consumers() == 0
    assert is_idle(talk)

    other = talk.call(SUBSCRIBE, service.message((1, TOPIC), (2, "c"), (3, "t")))

    may_exist = not status
    assert bool(talk.wire.asked) == may_exist
    if may_exist:
        talk.wire.front_answers()
        talk.wire.settle()
    assert (other not in talk.wire.server.seen) == may_exist
    assert (talk.client(other).status == "8") == may_exist
    talk.hang_up()


def test_the_rest_of_a_request_is_discarded() -> None:
    talk = Talk(front(max_publish_rate=1, on_limit__max_publish_rate="delay"))
    talk.attach()
    stream = talk.publish(end=False)
    talk.send(stream, service.publish(TOPIC, 7, b"held"))
    assert talk.session.held_bytes
    page(talk, stream)
    assert talk.session.held_bytes == 0
    assert talk.wire.server.seen[stream].reset is not None
    talk.send(stream, bytes(100), end=True)
    assert is_idle(talk)
    talk.hang_up()


@pytest.mark.parametrize("pad", [None, 7])
def test_a_consumer_hears_that_its_stream_has_ended(pad: int | None) -> None:
    talk = Talk(front(max_dispatch_rate=1))
    talk.subscribe()
    stream = talk.receive()
    page(talk, stream, pad=pad)
    assert seen(talk, stream) == (HTML, True)
    assert is_idle(talk)
    assert talk.consumers() == 1  # it may open its stream again
    talk.hang_up()


@pytest.mark.parametrize("last", [delivered(2), b"", HTML])
def test_the_end_of_a_consumers_stream_follows_what_waits(last: bytes) -> None:
    talk = Talk(front(max_dispatch_rate=1))
    talk.subscribe()
    stream = talk.receive()
    talk.answer(stream, delivered(0), delivered(1), end=False)
    talk.wire.server.h2.send_data(stream, last, end_stream=True)
    talk.wire.settle()
    assert seen(talk, stream) == (delivered(0), False)
    assert talk.session._responses.watchers
    for _ in range(3):
        talk.wire.pass_time(2 * SECOND)
        talk.wire.settle()
    assert seen(talk, stream) == (delivered(0) + delivered(1) + last, True)
    assert is_idle(talk)
    talk.hang_up()


def test_a_dropped_message_ends_the_stream() -> None:
    talk = Talk(front(max_dispatch_rate=1, on_limit__max_dispatch_rate="drop"))
    attach = talk.call(ATTACH, service.message((1, TOPIC), (2, "p")))  # its messages need not arrive
    talk.answer(attach, service.message((1, 7)))
    talk.subscribe()
    stream = talk.receive()
    talk.answer(stream, delivered(0), end=False)
    talk.wire.server.h2.send_data(stream, delivered(1), end_stream=True)
    talk.wire.settle()
    assert seen(talk, stream) == (delivered(0), True)
    talk.hang_up()


@pytest.mark.parametrize("path", [OTHER, ATTACH, RECEIVE])
def test_the_end_waits_for_the_clients_window(path: str) -> None:
    talk = Talk(front(max_dispatch_rate=1))
    talk.subscribe()
    slow = talk.receive()  # uses up the client's window: the broker got it back for what was withheld
    talk.answer(slow, *[delivered(at, 16_000) for at in range(4)], end=False)
    talk.wire.pass_time(4 * SECOND)
    talk.wire.settle()
    stream = talk.call(path, service.message((1, 9 if path == RECEIVE else TOPIC), (2, "p"), (3, 1)))
    page(talk, stream, b"x" * 2_000)
    assert not seen(talk, stream)[1]
    talk.take(talk.wire.client)
    assert seen(talk, stream) == (b"x" * 2_000, True)
    assert stream not in talk.session._down.watched
    talk.hang_up()


def test_a_rewritten_response_ends() -> None:
    talk = Talk(front(rewrites={LOOKUP: lambda answer: b"told"}))
    stream = talk.call(LOOKUP, service.message((1, TOPIC)))
    page(talk, stream)
    assert seen(talk, stream) == (b"", True)  # what is no message does not pass
    stream = talk.call(LOOKUP, service.message((1, TOPIC)))
    page(talk, stream, service.message((1, b"b")))
    assert seen(talk, stream) == (service.framed(b"told"), True)
    assert is_idle(talk)
    assert talk.wire.closed is None
    talk.hang_up()
