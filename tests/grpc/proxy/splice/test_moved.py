"""Lookups name the owner of a topic, and other brokers stand in for an absent one."""

from dataclasses import replace

from tests.bench import START
from tests.grpc.proxy.splice.oracle import service
from tests.grpc.proxy.splice.talk import LOOKUP, METHODS, TOPIC, Talk, front

from sluicegate.broker import Dial, ToClient, WakeAt
from sluicegate.model import Method, Role
from sluicegate_grpc.proxy.splice import GrpcSession
from sluicegate_grpc.proxy.splice.frames import GOAWAY, PREFACE

A, B = ("a", 1), ("b", 2)


def looking() -> tuple[Talk, list[tuple[str, bytes]]]:
    told: list[tuple[str, bytes]] = []
    shared = front(rewrites={LOOKUP: lambda answer: b"the gate"})
    lookup = Method(Role.LOOKUP, topic=(1,))
    shared.rules.methods = replace(METHODS, methods={**METHODS.methods, LOOKUP: lookup})
    shared.brokers.looked_up = lambda topic, answer, now_ns: told.append((topic, answer))
    return Talk(shared), told


def test_the_owner_in_a_lookup_response_is_recorded() -> None:
    talk, told = looking()
    stream = talk.call(LOOKUP, service.message((1, TOPIC)))
    talk.answer(stream, service.message((1, "b")))
    assert told == [(TOPIC, service.field(1, "b"))]
    assert bytes(talk.client(stream).data) == service.framed(b"the gate")
    talk.hang_up()


def test_a_fragmented_lookup_response_is_recorded_and_rewritten() -> None:
    talk, told = looking()
    message = service.message((1, TOPIC))
    stream = talk.call(LOOKUP, message[:3], end=False)
    talk.send(stream, message[3:], end=True)
    talk.answer(stream, service.message((1, "b")))
    assert [topic for topic, _ in told] == [TOPIC]
    assert bytes(talk.client(stream).data) == service.framed(b"the gate")


def test_every_lookup_response_is_rewritten() -> None:
    talk, told = looking()
    stream = talk.call(LOOKUP, b"", end=False)
    talk.wire.client.h2.end_stream(stream)
    talk.wire.settle()
    talk.answer(stream, service.message((1, "b")))
    assert bytes(talk.client(stream).data) == service.framed(b"the gate")
    assert told == []


def test_a_cancelled_lookup_leaves_nothing_behind() -> None:
    talk, told = looking()
    stream = talk.call(LOOKUP, service.message((1, TOPIC))[:3], end=False)
    talk.wire.client.h2.reset_stream(stream)
    talk.wire.settle()
    assert told == []
    assert not talk.session._responses.watchers
    talk.hang_up()


def begun(*stand_ins: tuple[str, int]) -> tuple[GrpcSession, list[Dial]]:
    session = GrpcSession(front(), "10.0.0.1:5000", (A,), stand_ins=stand_ins)
    return session, [each for each in session.receive_client(PREFACE, START) if isinstance(each, Dial)]


def test_other_brokers_stand_in_for_an_absent_one() -> None:
    assert begun()[1] == [Dial((A,))]
    assert begun(B)[1] == [Dial((A, B), in_order=True)]


def test_a_client_of_a_stand_in_gets_goaway_once_the_broker_is_back() -> None:
    session, _ = begun(B)
    session.stands_in()
    woken = [each.at_ns for each in session.dialled(START) if isinstance(each, WakeAt)]
    assert woken == [START + 1_000_000_000]
    parts = [bytes(each.data) for each in session.wake(woken[0], False) if isinstance(each, ToClient)]
    assert GOAWAY in [part[3] for part in parts]
    session.closed(START)


def test_a_client_of_the_broker_itself_stays() -> None:
    session, _ = begun(B)
    assert not [each for each in session.dialled(START) if isinstance(each, WakeAt)]
    session.closed(START)
