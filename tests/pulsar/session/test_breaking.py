"""Faults that policies inject: connections that are closed, responses that cannot be read."""

import pytest
from tests.chaos.lab import UNTIL, endless_context
from tests.pulsar.session.deliveries import attach, delivered, flow, message
from tests.pulsar.session.messages import parse, producer, producer_success, send, split
from tests.pulsar.session.wire import Bench, Wire

from sluicegate import chaos
from sluicegate.model import PolicyValue, SessionClose
from sluicegate_pulsar.codec.errors import ProtocolError


def bench_of(**policies: PolicyValue) -> Bench:
    """A broker whose topic `t` has faults."""
    bench = Bench(None, [chaos])
    bench.context = endless_context()
    bench.set_topic("t", chaos_until=UNTIL, **policies)
    return bench


def opened(bench: Bench) -> Wire:
    """A connection with producers on `t` and on `u`."""
    wire = Wire(bench)
    for number, topic in enumerate(("t", "u")):
        wire.client_sends(producer(number, request_id=number, topic=topic))
        wire.broker_sends(producer_success(number, f"p-{number}"))
    wire.sent_up()
    wire.sent_down()
    return wire


def assert_broken_off(wire: Wire, policy: str) -> None:
    assert wire.closed is not None
    assert wire.closed.counter is SessionClose.FAULT_INJECTED
    assert f"injected by {policy}" in wire.closed.detail


def test_a_killed_connection_has_forwarded_nothing_of_what_came_behind() -> None:
    wire = opened(bench_of(chaos_kill="100%"))
    before = send(0, producer_id=1)
    wire.client_sends(before + send(0) + send(1, producer_id=1) + send(1))
    assert_broken_off(wire, "chaos_kill")
    assert wire.sent_up() == [before]
    assert wire.sent_down() == []
    wire.close()
    assert wire.session.held_bytes == 0


def test_a_corrupt_response_is_the_last_that_the_client_gets() -> None:
    wire = opened(bench_of(chaos_corrupt="100%"))
    wire.client_sends(send(0) + send(1))
    assert_broken_off(wire, "chaos_corrupt")
    assert wire.sent_up() == []
    ((frame,), rest) = split(wire.downstream)
    assert rest == b""
    with pytest.raises(ProtocolError):
        parse(frame)


def test_messages_in_a_queue_stay_when_the_connection_is_killed() -> None:
    bench = bench_of(max_publish_rate=1)
    wire = opened(bench)
    wire.client_sends(*(send(number) for number in range(40)))
    assert len(wire.sent_up()) == 1
    bench.set_topic("t", max_publish_rate=0, chaos_kill="50%", chaos_seed=2, chaos_until=UNTIL)
    wire.wait(1)
    assert_broken_off(wire, "chaos_kill")
    passed = [parse(frame).send.sequence_id for frame in wire.sent_up()]
    assert passed == list(range(1, 1 + len(passed)))
    assert len(passed) < 20
    wire.close()
    assert wire.session.held_bytes == 0


def test_a_killed_delivery_does_not_reach_the_consumer() -> None:
    wire = opened(bench_of(chaos_kill="100%"))
    attach(wire, 0, 5, topic="t")
    wire.client_sends(flow(10))
    wire.broker_sends(message(1), message(2))
    assert_broken_off(wire, "chaos_kill")
    assert delivered(wire) == []
