"""Requests that a server and the gateway could read differently: they bypass no policy."""

import pytest
from hpack import Encoder
from tests.bench import SECOND, Bench
from tests.grpc.proxy.splice.oracle import gate, service
from tests.grpc.proxy.splice.oracle.raw import HELLO, Raw, call
from tests.grpc.proxy.splice.oracle.reshape import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    WINDOW_UPDATE,
    frame,
)
from tests.grpc.proxy.splice.talk import LOOKUP, TOPIC, Talk, front

from sluicegate.engine.budget import Budget

PROTOCOL_ERROR = 1
UNIMPLEMENTED, PERMISSION_DENIED, INVALID_ARGUMENT = "12", "7", "3"
TOO_LARGE = service.publish(gate.SMALL, 1, bytes(gate.MAX_SIZE + 1))
FITTING = service.publish(gate.SMALL, 1, bytes(gate.MAX_SIZE))
METHOD, SCHEME, PATH = (":method", "POST"), (":scheme", "http"), (":path", service.OTHER)
PUBLISH = (":path", service.PUBLISH)
TYPE = ("content-type", "application/grpc")


@pytest.mark.parametrize("path", ["{}?x", "{}#x", "{}?", "{}#"])
def test_a_path_that_servers_truncate_is_refused(path: str) -> None:
    talk = Talk(front(max_message_size=5))
    stream = talk.call(path.format(service.PUBLISH), service.publish(TOPIC, 7, b"x" * 10))
    assert talk.refused(stream)[0] == UNIMPLEMENTED
    asked = talk.call(path.format(LOOKUP), service.message((1, TOPIC)), end=False)
    assert talk.refused(asked)[0] == UNIMPLEMENTED
    assert talk.shared.counts["malformed_path"] == 2
    talk.publish(5)
    assert list(talk.wire.server.seen) == [5]


def test_a_path_without_a_slash_is_refused() -> None:
    talk = Talk(front(max_message_size=5))
    stream = talk.call(service.PUBLISH[1:], service.publish(TOPIC, 7, b"x" * 10))
    assert talk.refused(stream)[0] == UNIMPLEMENTED


@pytest.mark.parametrize(
    "headers",
    [
        [METHOD, SCHEME, PATH, PUBLISH, TYPE],
        [METHOD, SCHEME, PUBLISH, PATH, TYPE],
        [METHOD, SCHEME, PATH, TYPE, PUBLISH],
        [METHOD, SCHEME, PATH, (":other", "x"), TYPE],
        [METHOD, SCHEME, TYPE],
        [METHOD, PATH, TYPE],
        [METHOD, SCHEME, (":path", ""), TYPE],
        [METHOD, SCHEME, PATH, ("Content-Type", "application/grpc")],
        [METHOD, SCHEME, PATH, TYPE, ("", "x")],
        [METHOD, SCHEME, PATH, TYPE, ("x y", "x")],
        [METHOD, SCHEME, PATH, TYPE, ("x\r\ny", "x")],
        [METHOD, SCHEME, PATH, TYPE, ("x", "a\r\n:path: b")],
        [METHOD, SCHEME, PATH, TYPE, ("x", "a\0")],
        [METHOD, SCHEME, (":path", f"{service.OTHER}\n"), TYPE],
        [METHOD, SCHEME, PATH, TYPE, ("connection", "x")],
        [METHOD, SCHEME, PATH, TYPE, ("transfer-encoding", "chunked")],
        [METHOD, SCHEME, PATH, TYPE, ("te", "gzip")],
    ],
)
def test_malformed_headers_end_their_stream_and_no_other(headers: list[tuple[str, str]]) -> None:
    encoder = Encoder()
    encoder.header_table_size = 0
    block = encoder.encode(headers)
    client = Raw().send(HELLO)
    client.send(frame(HEADERS, END_HEADERS, 1, block) + frame(DATA, END_STREAM, 1, TOO_LARGE))
    assert client.resets(1) == [PROTOCOL_ERROR]
    assert not client.server.seen
    assert client.front.counts["malformed_headers"] == 1
    client.send(frame(HEADERS, END_HEADERS | END_STREAM, 3, block))
    assert client.resets(3) == [PROTOCOL_ERROR]
    assert client.wire.closed is None


def test_headers_reserved_for_the_gateway_are_refused() -> None:
    shared = front()
    shared.rules.forbidden = frozenset({"x-i-am-a-broker"})
    talk = Talk(shared)
    stream = talk.call(service.OTHER, b"", ("x-i-am-a-broker", "yes"))
    assert talk.refused(stream)[0] == PERMISSION_DENIED
    assert shared.counts["forbidden_header_refused"] == 1
    assert not talk.client(talk.call(service.OTHER, b"")).is_over


def test_two_credentials_name_no_principal() -> None:
    bench = Bench()
    bench.exempt = frozenset({"boss", ""})
    shared = front(bench, max_producers_per_topic=1)
    shared.rules.principal = lambda headers: "boss"
    talk = Talk(shared)
    two = (("authorization", "Bearer one"), ("authorization", "Bearer boss"))
    message = service.message((1, TOPIC), (2, "a"), (3, 1))
    talk.answer(talk.call(service.ATTACH, message, *two), service.message((1, 1)))
    other = service.message((1, TOPIC), (2, "b"), (3, 1))
    assert talk.refused(talk.call(service.ATTACH, other, *two))[0] == "8"


def test_a_consumer_with_withheld_messages_is_released_with_its_client() -> None:
    for gone in (True, False):
        talk = Talk(front(max_dispatch_rate=1))
        talk.subscribe()
        stream = talk.receive()
        talk.answer(stream, *(service.message((1, at), (2, b"x")) for at in range(5)))
        assert talk.session.held_bytes > 0
        if gone:
            talk.wire.client.h2.reset_stream(stream, error_code=8)
            talk.wire.settle()
            assert talk.session.held_bytes == 0
            talk.wire.pass_time(10 * SECOND)
            talk.wire.settle()
        talk.wire.hang_up()
        assert talk.consumers() == 0
        assert talk.shared.services.budget.used == 0


def test_a_block_that_changes_the_dynamic_table_is_not_cached() -> None:
    """What a client without a table may send fills the table of one that has one: it is not the same."""
    front_ = gate.shared()
    filling = Encoder().encode(service.request(service.OTHER))
    hostile = Raw(front_).send(HELLO)
    hostile.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x20" + filling))
    hostile.send(frame(HEADERS, END_HEADERS | END_STREAM, 3, filling))
    encoder = Encoder()
    other = Raw(front_).send(HELLO)
    for stream in (1, 3):  # before it was told that there is no table
        block = encoder.encode(service.request(service.OTHER))
        other.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, block))
    assert other.wire.closed is None
    assert other.server.seen[3].headers == other.server.seen[1].headers


def test_headers_left_out_of_a_block_do_not_shift_later_ones() -> None:
    """A name of 127 bytes says its length in two; who takes it for one sees fields where there are none."""
    shared = gate.shared()
    shared.rules.forbidden = frozenset({"evil"})
    encoder = Encoder()
    encoder.header_table_size = 0
    begin = encoder.encode(service.request(service.OTHER)).removeprefix(b"\x20")
    evil = b"\x10\x04evil\x01x"
    left_out = b"\x10\x0cgrpc-timeout\x021S"
    # Wrongly read, the last letter of the name is the length of a value, which ends before `left_out`.
    spilled = evil + b"\x10\x01a\x05" + b"v" * 5
    assert len(spilled) == len(left_out)
    value = b"v" * (ord("m") - 1) + spilled
    name = b"n" * 126 + b"m"
    harmless = begin + b"\x00\x7f\x00" + name + bytes((len(value),)) + value
    shifted = harmless[: -len(spilled)] + left_out + spilled
    client = Raw(shared).send(HELLO)
    client.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x20" + begin))
    for stream, block in ((3, harmless), (5, shifted)):
        client.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, block))
    assert "evil" not in client.server.seen[3].headers
    assert not client.server.seen[5].headers


@pytest.mark.parametrize("huffman", [False, True])
@pytest.mark.parametrize("place", [0, 6])
@pytest.mark.parametrize("time", ["1S\r\nx: y", "1S\n", "1S\0", "1S"])
def test_a_deadline_is_read_whether_or_not_an_equal_request_is_known(
    time: str, place: int, huffman: bool
) -> None:
    encoder = Encoder()
    encoder.header_table_size = 0
    begin = encoder.encode([]) + encoder.encode(service.request(service.OTHER))
    client = Raw().send(HELLO, frame(HEADERS, END_HEADERS | END_STREAM, 1, begin))
    known = service.request(service.OTHER, ("grpc-timeout", "1S"))
    other = service.request(service.OTHER)
    other.insert(place, ("grpc-timeout", time))
    for stream, headers in ((3, known), (5, service.request(service.OTHER)), (7, other)):
        block = encoder.encode(headers, huffman=huffman)
        client.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, block))
    is_fine = place == 6 and time == "1S"
    assert client.resets(7) == ([] if is_fine else [PROTOCOL_ERROR])
    assert list(client.server.seen) == [1, 3, 5, 7][: 3 + is_fine]


def test_a_subscription_outlives_the_cancelled_call_that_created_it() -> None:
    for gives_up in (True, False):
        talk = Talk(front(list_valid_ns=SECOND, max_subscriptions_per_topic=1))
        talk.shared.calls.attachments.listed(TOPIC, [], talk.wire.now, talk.wire.now)
        stream = talk.call(service.SUBSCRIBE, service.message((1, TOPIC), (2, "c"), (3, "s")))
        assert talk.wire.server.seen[stream].is_ended
        if gives_up:
            talk.wire.client.h2.reset_stream(stream, error_code=8)
            talk.wire.settle()
        else:
            talk.answer(stream, status=7)
        state = talk.shared.services.gates.get(TOPIC, False, talk.wire.now).state
        assert (state.subscription_count, state.consumer_count) == (int(gives_up), 0)


def test_a_client_with_large_buffers_does_not_end_other_connections() -> None:
    bench = Bench()
    bench.budget = Budget(100_000)
    shared = front(bench)
    hostile, other = Talk(shared), Talk(shared, "10.0.0.2:5000")
    for _ in range(7):  # messages that are never whole
        hostile.call(service.PUBLISH, b"\0\0\1\0\0" + service.field(2, b"n" * 60_000)[:14_000], end=False)
    stream = other.publish(5_000, settled=False)
    wire = other.wire
    wire.collect()
    while wire.to_gate.size and wire.closed is None:
        wire.move(wire.to_gate, 4_000)  # frames come in part
    wire.settle()
    assert wire.closed is None
    assert wire.server.seen[stream].is_ended
    for talk in (hostile, other):
        talk.session.closed(wire.now)
    assert bench.budget.used == 0


@pytest.mark.parametrize("reads", [1, 2])
@pytest.mark.parametrize("how", ["refused", "given up"])
def test_a_producer_unknown_to_the_broker_takes_no_place(how: str, reads: int) -> None:
    talk = Talk(front(max_producers_per_topic=2))
    for producer in (101, 102, 103):
        message = service.publish(TOPIC, producer, b"x")
        stream = talk.call(service.PUBLISH, message if reads == 1 else b"", end=reads == 1)
        if reads == 2:
            talk.send(stream, message, end=True)
        assert talk.wire.server.seen[stream].is_ended
        if how == "refused":
            talk.answer(stream, status=16)
        else:
            talk.wire.client.h2.reset_stream(stream, error_code=8)
            talk.wire.settle()
    known = talk.publish(5, 104)
    talk.answer(known)
    talk.answer(talk.publish(5, 104), status=8)
    talk.attach("honest", 1)
    other = talk.call(service.ATTACH, service.message((1, TOPIC), (2, "one too many"), (3, 1)))
    assert talk.refused(other)[0] == "8"
    talk.hang_up()


def test_window_updates_of_a_held_call_are_forwarded_together_later() -> None:
    talk = Talk(front(max_publish_rate=1, on_limit__max_publish_rate="delay"))
    talk.attach()
    talk.publish()
    held = talk.publish()
    before = talk.session.held_bytes
    opening = frame(WINDOW_UPDATE, 0, held, (3).to_bytes(4)) * 1_000
    for _ in range(3):
        assert talk.session.receive_client(opening, talk.wire.now) == []
    assert talk.session.held_bytes == before
    talk.wire.pass_time(SECOND)
    talk.wire.settle()
    assert talk.wire.server.seen[held].is_ended
    assert talk.wire.server.h2.streams[held].outbound_flow_control_window == 65_535 + 9_000


@pytest.mark.parametrize("reserved", [0, 1 << 31])
def test_the_reserved_bit_of_a_stream_hides_no_message(reserved: int) -> None:
    client = Raw().send(HELLO, call(1 | reserved, FITTING), call(3 | reserved, TOO_LARGE))
    assert client.status(3) == INVALID_ARGUMENT
    assert list(client.server.seen) == [1]  # RFC 9113 section 4.1: receivers ignore that bit


@pytest.mark.parametrize("kind", [11, 255])
def test_a_frame_of_an_unknown_type_hides_no_message_behind_it(kind: int) -> None:
    unknown = frame(kind, 0, 0, b"x")
    client = Raw().send(HELLO, unknown + call(1, FITTING), unknown + call(3, TOO_LARGE))
    assert client.status(3) == INVALID_ARGUMENT
    assert list(client.server.seen) == [1]
