"""The gateway's first frame is SETTINGS (RFC 9113 section 3.4), also for clients that do not wait for it."""

import pytest
from tests.bench import START
from tests.grpc.proxy.splice.oracle import gate, service
from tests.grpc.proxy.splice.oracle.raw import HELLO, call, headers
from tests.grpc.proxy.splice.oracle.reshape import (
    ACK,
    DATA,
    GOAWAY,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Cutter,
    Frame,
    frame,
)

from sluicegate.broker import PASS, Command, ToClient, ToUpstream
from sluicegate_grpc.proxy.splice import GrpcSession, Limits

REFUSED = call(1, b"", "/t.Broker/Publish?now")
EARLY = {
    "a call that is refused": (REFUSED, HEADERS),
    "headers that are malformed": (headers(1, service.OTHER, ("Upper", "case")), RST_STREAM),
    "a message of which a part is kept": (
        headers(1) + frame(DATA, 0, 1, service.publish(gate.SMALL, 1, bytes(50))[:20]),
        WINDOW_UPDATE,
    ),
    "a stream too many": (headers(1, service.OTHER) + headers(3, service.OTHER), RST_STREAM),
    "a frame that is malformed": (frame(WINDOW_UPDATE, 0, 0, bytes(3)), GOAWAY),
}
"""What a client sends with its preface, and what the gate has to say about it before its broker speaks."""


def to_client(commands: list[Command]) -> list[Frame]:
    told = b"".join(bytes(each.data) for each in commands if isinstance(each, ToClient))
    return list(Cutter(has_preface=False).feed(told))


def to_broker(session: GrpcSession, sent: bytes) -> bytes:
    commands = session.receive_client(sent, START)
    if commands is PASS:
        return sent
    return b"".join(bytes(each.data) for each in commands if isinstance(each, ToUpstream))


@pytest.mark.parametrize("name", EARLY)
def test_settings_precede_all_other_frames_of_the_gateway(name: str) -> None:
    sent, kind = EARLY[name]
    session = gate.session(gate.shared(limits=Limits(max_streams=1)))

    told = to_client(list(session.receive_client(HELLO + sent, START)))

    assert [each.type for each in told][:2] == [SETTINGS, kind]
    assert (told[0].flags, told[0].stream) == (0, 0)
    session.closed(START)


def test_the_brokers_settings_follow_and_each_side_sees_its_own_acknowledgement() -> None:
    session = gate.session(gate.shared())
    session.receive_client(HELLO + REFUSED, START)

    brokers = frame(SETTINGS) + frame(SETTINGS, ACK)
    told = to_client(list(session.receive_upstream(brokers, START)))
    passed = to_broker(session, frame(SETTINGS, ACK))
    then = to_broker(session, frame(SETTINGS, ACK))

    assert [(each.type, each.flags) for each in told] == [(SETTINGS, 0), (SETTINGS, ACK)]
    assert passed == b""  # the gateway's own SETTINGS came first
    assert then == frame(SETTINGS, ACK)
    session.closed(START)


def test_waiting_clients_get_only_the_settings_of_the_broker() -> None:
    session = gate.session(gate.shared())
    assert to_client(list(session.receive_client(HELLO, START))) == []

    told = to_client(list(session.receive_upstream(frame(SETTINGS), START)))
    assert [each.type for each in told] == [SETTINGS]
    answered = to_client(list(session.receive_client(frame(SETTINGS, ACK) + REFUSED, START)))
    assert [each.type for each in answered] == [HEADERS]
    session.closed(START)


def test_a_client_without_http2_gets_an_http2_goaway() -> None:
    session = gate.session(gate.shared())
    told = to_client(list(session.receive_client(b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", START)))
    assert [each.type for each in told] == [SETTINGS, GOAWAY]
    session.closed(START)


def test_the_gateway_sends_settings_first_even_if_the_broker_does_not() -> None:
    session = gate.session(gate.shared())
    session.receive_client(PREFACE + frame(SETTINGS), START)
    told = to_client(list(session.receive_upstream(frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"), START)))
    assert [each.type for each in told] == [SETTINGS, GOAWAY]
    session.closed(START)
