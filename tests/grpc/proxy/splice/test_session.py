"""A session as a whole: its broker, questions, principal and rewritten responses."""

from hashlib import sha256

import pytest
from hpack import Encoder
from tests.bench import SECOND, START, Bench
from tests.grpc.proxy.splice.oracle import service
from tests.grpc.proxy.splice.oracle.reshape import END_HEADERS, HEADERS, PREFACE, SETTINGS, Cutter, frame
from tests.grpc.proxy.splice.talk import ATTACH, LOOKUP, PUBLISH, SUBSCRIBE, TOPIC, Talk, delivered, front

from sluicegate.broker import Ask, Close, Dial, ToClient, ToUpstream
from sluicegate.model import SessionClose
from sluicegate_grpc.proxy.splice import GrpcSession, Shared
from sluicegate_grpc.proxy.splice.frames import ErrorCode, goaway
from sluicegate_grpc.proxy.splice.wellformed import Headers

BROKERS = (("10.0.0.9", 6650),)
OTHER = (("10.0.0.10", 6650),)
HELLO = PREFACE + frame(SETTINGS)


def request(path: str, *more: tuple[str, str], stream: int = 1) -> bytes:
    encoder = Encoder()
    encoder.header_table_size = 0
    return frame(HEADERS, END_HEADERS, stream, encoder.encode(service.request(path, *more)))


def routing() -> Shared:
    shared = front()
    shared.brokers.route = {"http://b:6650": OTHER}.get
    return shared


def test_a_session_dials_and_then_sends_the_buffered_bytes() -> None:
    session = GrpcSession(front(), "10.0.0.1:5000", BROKERS)
    assert session.receive_client(PREFACE[:10], START) == []
    assert session.frame_began_ns
    assert session.receive_client(PREFACE[10:] + frame(SETTINGS), START) == [Dial(BROKERS)]
    assert session.held_bytes == len(HELLO) - len(PREFACE)
    (sent,) = session.dialled(START)
    assert isinstance(sent, ToUpstream)
    assert bytes(sent.data).startswith(PREFACE)
    assert session.held_bytes == 0
    session.closed(START)


@pytest.mark.parametrize(("headers", "dialled"), [((), BROKERS), ((("x-broker", "http://b:6650"),), OTHER)])
def test_the_first_request_says_which_broker_is_dialled(
    headers: tuple[tuple[str, str], ...], dialled: object
) -> None:
    session = GrpcSession(routing(), "10.0.0.1:5000", BROKERS, routes=True)
    (told,) = session.receive_client(HELLO, START)
    assert isinstance(told, ToClient)  # clients wait for SETTINGS before they ask for anything
    found = list(Cutter(has_preface=False).feed(bytes(told.data)))
    assert [each.type for each in found] == [SETTINGS]
    assert session.receive_client(frame(SETTINGS, 1), START) == []
    first = request("/t.Other/Anything", *headers)
    assert session.receive_client(first[:20], START) == []
    assert session.receive_client(first[20:], START) == [Dial(dialled)]  # type: ignore[arg-type]
    (sent,) = session.dialled(START)
    assert isinstance(sent, ToUpstream)
    to_broker = list(Cutter(has_preface=True).feed(bytes(sent.data)))
    assert [(each.type, each.flags) for each in to_broker] == [(SETTINGS, 0), (HEADERS, END_HEADERS)]
    session.closed(START)


def test_a_broker_that_is_not_allowed_is_refused_and_others_are_served() -> None:
    talk = Talk(routing())
    forbidden = talk.call("/t.Other/Anything", service.message((1, 1)), ("x-broker", "http://evil:1"))
    assert talk.refused(forbidden)[0] == "7"
    assert talk.shared.counts["forbidden_broker_refused"] == 1
    allowed = talk.call("/t.Other/Anything", service.message((1, 1)), ("x-broker", "http://b:6650"))
    assert talk.wire.server.seen[allowed].is_ended


def test_a_bound_connection_reaches_no_other_broker() -> None:
    shared = front()
    shared.brokers.route = {"http://a:1": BROKERS, "http://b:6650": OTHER}.get
    session = GrpcSession(shared, "10.0.0.1:5000", BROKERS, routes=True)
    session.receive_client(HELLO, START)
    session.receive_client(request("/t.Other/Anything", ("x-broker", "http://b:6650")), START)
    session.dialled(START)
    refused = session.receive_client(
        request("/t.Other/Anything", ("x-broker", "http://a:1"), stream=3), START
    )
    assert [type(each) for each in refused] == [ToClient]
    session.closed(START)


def test_responses_of_any_length_are_rewritten() -> None:
    told = service.field(1, b"the gate") * 500
    talk = Talk(front(rewrites={LOOKUP: lambda answer: told if answer == service.field(1, b"b") else None}))
    for answer, expected in ((b"b", told), (b"unchanged", service.field(1, b"unchanged"))):
        stream = talk.call(LOOKUP, service.message((1, TOPIC)))
        talk.answer(stream, service.message((1, answer)))
        assert bytes(talk.client(stream).data) == service.framed(expected)
        assert talk.client(stream).status == "0"
    for _ in range(20):  # more than the window, if what was added were not accounted for
        stream = talk.call(LOOKUP, service.message((1, TOPIC)))
        talk.answer(stream, service.message((1, b"b")))
        talk.take(talk.wire.client)
    assert bytes(talk.client(stream).data) == service.framed(told)
    assert talk.session.held_bytes == 0
    assert "unknown_method" not in talk.shared.counts
    talk.hang_up()


def test_an_unreadable_response_does_not_pass() -> None:
    talk = Talk(front(rewrites={LOOKUP: lambda answer: None}))
    stream = talk.call(LOOKUP, service.message((1, TOPIC)))
    talk.answer(stream, service.framed(b"?", compressed=1), end=False)
    assert talk.wire.closed is not None
    assert talk.wire.closed.counter == "answer_unreadable"
    assert not talk.client(stream).data


def tokens(headers: Headers) -> str | None:
    return dict(headers)["authorization"].removeprefix("Bearer ")


def test_a_name_counts_once_the_broker_has_accepted_a_call_with_it() -> None:
    bench = Bench()
    bench.exempt = frozenset({"boss"})
    shared = front(bench, max_producers_per_topic=1)
    shared.rules.principal = tokens
    talk = Talk(shared)
    attach = service.message((1, TOPIC), (2, "a"), (3, 1))
    talk.answer(talk.call(ATTACH, attach, ("authorization", "Bearer boss")), status=16)
    assert not shared.accepted
    talk.attach("a", 1)
    other = service.message((1, TOPIC), (2, "b"), (3, 1))
    assert talk.refused(talk.call(ATTACH, other, ("authorization", "Bearer boss")))[0] == "8"
    talk.answer(talk.call(ATTACH, attach, ("authorization", "Bearer boss")), service.message((1, 1)))
    assert list(shared.accepted) == [sha256(b"Bearer boss").digest()]
    exempt = talk.call(ATTACH, other, ("authorization", "Bearer boss"))
    assert not talk.client(exempt).is_over
    talk.hang_up()


def test_an_accepted_publish_confirms_a_name_as_well() -> None:
    shared = front()
    shared.rules.principal = tokens
    talk = Talk(shared)
    message = service.publish(TOPIC, 7, b"x")
    for status, accepted in ((16, []), (0, [sha256(b"Bearer me").digest()])):
        talk.answer(talk.call(PUBLISH, message, ("authorization", "Bearer me")), status=status)
        assert list(shared.accepted) == accepted
    assert not talk.session._responses.watchers


def test_subscriptions_are_listed_before_one_is_refused() -> None:
    shared = front(list_valid_ns=SECOND, max_subscriptions_per_topic=1)
    shared.brokers.question = lambda topic: ("subscriptions of", topic)
    session = GrpcSession(shared, "10.0.0.1:5000")
    message = service.message((1, TOPIC), (2, "c"), (3, "s"))
    read = HELLO + request(SUBSCRIBE) + frame(0, 1, 1, message)
    asked = session.receive_client(read, START)
    question = ("subscriptions of", TOPIC)
    assert Ask(question) in asked
    assert session.held_bytes > 0
    shared.calls.attachments.listed(TOPIC, ["another"], START, START)
    (refused,) = session.answered(question, None, START + 1)
    assert isinstance(refused, ToClient)
    assert b"Subscription limit reached" in refused.data
    assert session.held_bytes == 0
    session.closed(START)
    assert shared.services.budget.used == 0


def test_a_disconnect_ends_waiting_calls() -> None:
    talk = Talk(front(max_publish_rate=1, on_limit__max_publish_rate="delay"))
    talk.attach()
    talk.publish()
    talk.publish()
    assert talk.session.wake(talk.wire.now, client_gone=True) == [Close(SessionClose.CLIENT_GONE)]
    talk.hang_up()
    assert talk.producers() == 0


def test_bytes_held_for_all_clients_are_bounded() -> None:
    bench = Bench()
    bench.budget.limit = 10_000
    talk = Talk(front(bench, max_publish_rate=1, on_limit__max_publish_rate="delay"))
    talk.attach()
    for _ in range(100):
        talk.publish(1_000)
    assert talk.shared.counts["stream_refused"] > 30
    assert bench.budget.used <= 10_000
    assert talk.session.held_bytes <= 10_000 + 65_535
    talk.hang_up()


def test_after_goaway_the_broker_gets_no_new_streams() -> None:
    talk = Talk(front(max_publish_rate=1, on_limit__max_publish_rate="delay"))
    talk.attach()
    talk.publish()
    held = talk.publish()
    talk.wire.server.h2.close_connection(last_stream_id=held - 2)
    talk.wire.move(talk.wire.from_server, 1_000)
    talk.wire.pass_time(3 * SECOND)
    assert talk.session.held_bytes == 0
    assert held not in talk.wire.server.seen
    talk.hang_up()


@pytest.mark.parametrize("calls", [0, 1])
def test_messages_that_wait_behind_the_end_of_their_stream_are_no_call(calls: int) -> None:
    talk = Talk(front(max_dispatch_rate=1))
    talk.subscribe()
    paced = talk.receive()
    talk.answer(paced, delivered(0), delivered(1))
    opened = [talk.call("/t.Other/Anything", b"x") for _ in range(calls)]
    assert talk.session.open_calls == calls
    talk.wire.carry_out(talk.session.ending(talk.wire.now))
    assert (talk.wire.closed is None) == bool(opened)
    for stream in opened:
        talk.answer(stream)
        talk.wire.carry_out(talk.session.ending(talk.wire.now))
        assert talk.wire.closed is None or talk.client(stream).is_over
    talk.hang_up()


def lasts(talk: Talk) -> list[int]:
    """The last streams that the client was told of by GOAWAY."""
    talk.wire.settle()
    return [int.from_bytes(each.payload[:4]) for each in talk.wire.client.goaways]


def test_the_last_stream_of_goaway_never_grows() -> None:
    talk = Talk()
    talk.attach()
    open_call = talk.call("/t.Other/Anything", b"x", end=False)
    talk.wire.carry_out(talk.session.ending(talk.wire.now))
    for last in (2**31 - 1, 1):
        talk.wire.from_server.put(goaway(last, ErrorCode.NO_ERROR, "graceful"))
    assert lasts(talk) == [open_call, open_call, 1]
    assert talk.wire.client.goaways[1].payload[4:] == bytes(4) + b"graceful"
    talk.hang_up()


@pytest.mark.parametrize("breaks", [False, True])
def test_the_gateways_own_goaway_is_not_above_the_brokers(breaks: bool) -> None:
    talk = Talk()
    talk.attach()
    talk.call("/t.Other/Anything", b"x", end=False)
    talk.wire.from_server.put(goaway(1, ErrorCode.NO_ERROR, "graceful"))
    assert lasts(talk) == [1]
    if breaks:
        talk.wire.carry_out(talk.session.receive_client(frame(SETTINGS, 0, 1), talk.wire.now))
    else:
        talk.wire.carry_out(talk.session.ending(talk.wire.now))
    assert lasts(talk) == [1, 1]
    talk.hang_up()
