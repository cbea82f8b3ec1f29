"""Headers that wait for the first message of their request: their room, their order and their end."""

import pytest
from tests.grpc.proxy.splice.oracle import gate, service
from tests.grpc.proxy.splice.oracle.raw import Raw, assert_serves, call, headers, opened
from tests.grpc.proxy.splice.oracle.reshape import DATA, END_STREAM, PING, RST_STREAM, WINDOW_UPDATE, frame
from tests.grpc.proxy.splice.talk import PUBLISH, TOPIC, Talk, front

from sluicegate_grpc.proxy.splice import GrpcSession

PROTOCOL_ERROR, REFUSED_STREAM, CANCEL = 1, 7, 8
MESSAGE = service.publish(gate.FREE, 1, b"payload")


def session_of(client: Raw) -> GrpcSession:
    session = client.wire.session
    assert isinstance(session, GrpcSession)
    return session


def wakes(client: Raw) -> bool:
    """Whether the session still waits for a time to come."""
    return session_of(client)._connection.timers.due_ns is not None


def without_room() -> Raw:
    """A client that has made one call, of a gateway that has room for no further header block."""
    client = opened(gate.shared())
    client.front.services.budget.limit = 1
    return client


@pytest.mark.parametrize("begun", [b"", MESSAGE[:8]])
def test_headers_without_room_are_refused_for_a_retry(begun: bytes) -> None:
    client = without_room()

    client.send(headers(3) + (frame(DATA, 0, 3, begun) if begun else b""))

    assert client.resets(3) == [REFUSED_STREAM]
    assert client.front.counts["stream_refused"] == 1
    assert client.wire.session.held_bytes == client.front.services.budget.used == 0
    client.send(frame(DATA, END_STREAM, 3, MESSAGE))
    assert 3 not in client.server.seen
    client.front.services.budget.limit = 10_000
    assert_serves(client, 5)


def test_the_response_of_a_refused_stream_is_not_watched() -> None:
    client = without_room()
    client.front.rules.rewrites = {service.PUBLISH: lambda data: data}

    client.send(headers(3))

    assert not session_of(client)._responses.watchers


def test_bytes_of_a_refused_stream_return_their_credit() -> None:
    client = without_room()
    client.send(headers(3) + frame(DATA, 0, 3, bytes(100)))
    granted = [each.payload for each in client.got if each.type == WINDOW_UPDATE]
    assert (100).to_bytes(4) in granted


def held(client: Raw) -> int:
    """The stream of a publish that waits for its rate."""
    streams = range(3, 11, 2)
    client.send(*(call(stream, service.publish(gate.SLOW, 2, b"payload")) for stream in streams))
    assert 9 not in client.server.seen
    assert client.wire.session.held_bytes > 0
    return 9


def test_a_held_call_that_its_client_resets_is_forgotten() -> None:
    client = opened(gate.shared())
    stream = held(client)
    assert wakes(client)
    waiting = session_of(client)._policed.calls[stream]
    assert waiting.body.chunks

    client.send(frame(RST_STREAM, 0, stream, CANCEL.to_bytes(4)))

    assert stream not in {each.stream for each in client.got if each.type == WINDOW_UPDATE}
    assert client.wire.session.held_bytes == client.front.services.budget.used == 0
    got = len(client.got)
    wakes(client)
    assert len(client.got) == got
    assert not waiting.body.chunks
    assert not waiting.head.frames
    assert_serves(client, stream + 2)


def test_held_headers_precede_those_of_a_later_stream() -> None:
    """A publish without its message, and behind it a request that no policy applies to."""
    client = opened(gate.shared())
    client.send(headers(3), headers(5), call(7, MESSAGE, service.OTHER))

    assert list(client.server.seen) == [1, 3, 5, 7]
    assert client.wire.session.held_bytes == 0
    client.send(frame(DATA, END_STREAM, 5, MESSAGE), frame(DATA, END_STREAM, 3, MESSAGE))
    assert bytes(client.server.seen[3].data) == bytes(client.server.seen[5].data) == MESSAGE


def test_headers_precede_their_message_wherever_they_stood() -> None:
    """They are put where they stood only among the frames that came with them."""
    client = opened(gate.shared())
    client.send(frame(PING, 0, 0, bytes(8)) + headers(3), frame(DATA, END_STREAM, 3, MESSAGE))
    assert bytes(client.server.seen[3].data) == MESSAGE


def test_window_updates_wait_with_the_headers_that_they_follow() -> None:
    client = opened(gate.shared())
    update = frame(WINDOW_UPDATE, 0, 3, (5).to_bytes(4))
    client.send(headers(3) + update + update, update)
    assert 3 not in client.server.seen

    client.send(frame(DATA, END_STREAM, 3, MESSAGE))

    assert client.server.h2.streams[3].outbound_flow_control_window == 65_535 + 15


def test_window_updates_follow_headers_that_were_forwarded() -> None:
    client = opened(gate.shared())
    update = frame(WINDOW_UPDATE, 0, 3, (5).to_bytes(4))
    client.send(headers(3) + update + call(5, MESSAGE, service.OTHER), update)
    assert client.server.h2.streams[3].outbound_flow_control_window == 65_535 + 10
    assert not session_of(client)._policed._extras
    assert not session_of(client)._policed._fresh


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("forwarded", [False, True])
def test_window_updates_of_a_held_call_count_for_its_rewritten_response(apart: bool, forwarded: bool) -> None:
    """Or a response as large as the client has room for would wait for room that it never announces again."""
    client = opened(gate.shared())
    client.front.rules.rewrites = {service.PUBLISH: lambda data: data}
    update = frame(WINDOW_UPDATE, 0, 3, (1_000).to_bytes(4))
    later = call(5, MESSAGE, service.OTHER) if forwarded else b""

    client.send(*((headers(3) + later, update) if apart else (headers(3) + update + later,)))
    client.send(frame(DATA, END_STREAM, 3, MESSAGE), update)

    assert client.server.h2.streams[3].outbound_flow_control_window == 65_535 + 2_000
    assert session_of(client)._connection.down.flow.outlets[3].window == 65_535 + 2_000


def test_a_large_rewritten_response_fits_into_the_window_that_its_held_call_opened() -> None:
    talk = Talk(front(rewrites={PUBLISH: lambda answer: bytes(70_000)}))
    talk.attach()
    stream = talk.call(PUBLISH, b"", end=False, settled=False)
    for window in (stream, None):
        talk.wire.client.h2.increment_flow_control_window(10_000, window)
    talk.wire.settle()

    talk.send(stream, service.publish(TOPIC, 7, b"x"), end=True)
    talk.answer(stream, service.message((1, b"b")))

    assert len(talk.client(stream).data) == 70_005
    assert talk.client(stream).is_ended


def test_a_forwarded_call_that_breaks_the_protocol_is_reset_at_the_broker_too() -> None:
    client = opened(gate.shared())
    client.front.rules.rewrites = {service.PUBLISH: lambda data: data}
    client.send(headers(3), call(5, MESSAGE, service.OTHER))
    assert session_of(client)._responses.watchers

    client.send(headers(3))

    assert client.resets(3) == [PROTOCOL_ERROR]
    assert client.server.seen[3].reset is not None
    assert not session_of(client)._responses.watchers


def test_nothing_is_kept_of_an_ended_call_that_breaks_the_protocol() -> None:
    client = opened(gate.shared())
    client.send(headers(3, service.PUBLISH, ("content-length", "7")) + frame(DATA, END_STREAM, 3, bytes(6)))
    assert client.resets(3) == [PROTOCOL_ERROR]
    assert not session_of(client)._policed._refusals.discarded


def test_a_closed_connection_releases_held_headers() -> None:
    client = opened(gate.shared())
    client.send(headers(3) + headers(5))
    assert client.front.services.budget.used == client.wire.session.held_bytes > 0
    client.wire.session.closed(client.wire.now)
    assert client.front.services.budget.used == client.wire.session.held_bytes == 0
