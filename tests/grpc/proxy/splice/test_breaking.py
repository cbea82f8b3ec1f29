"""Faults that policies inject: connections that are closed, responses that cannot be read."""

import pytest
from tests.bench import Bench
from tests.chaos.lab import UNTIL, endless_context
from tests.grpc.proxy.splice.talk import TOPIC, Talk, delivered, front

from sluicegate import chaos
from sluicegate.model import PolicyValue, SessionClose

UNAVAILABLE, INTERNAL = "14", "13"


def talk_of(**policies: PolicyValue) -> Talk:
    """A connection whose topic has faults, with a producer and a consumer."""
    bench = Bench(None, [chaos])
    bench.context = endless_context()
    talk = Talk(front(bench))
    talk.attach()
    talk.subscribe()
    bench.set_topic(TOPIC, chaos_until=UNTIL, **policies)
    return talk


def assert_broken_off(talk: Talk) -> None:
    close = talk.wire.closed
    assert close is not None
    assert close.counter is SessionClose.FAULT_INJECTED
    assert "injected by chaos_kill" in close.detail


def test_a_killed_connection_is_closed_and_its_message_not_forwarded() -> None:
    talk = talk_of(chaos_kill="100%")
    code, text = talk.refused(talk.publish())
    assert code == UNAVAILABLE
    assert "injected by chaos_kill" in text
    assert_broken_off(talk)
    talk.hang_up()


def test_a_killed_delivery_does_not_reach_the_consumer() -> None:
    talk = talk_of(chaos_kill="100%")
    stream = talk.receive()
    talk.answer(stream, delivered(1), end=False)
    assert bytes(talk.client(stream).data) == b""
    assert_broken_off(talk)
    talk.hang_up()


@pytest.mark.parametrize("publishes", [1, 3])
def test_a_corrupt_response_is_the_status_of_one_that_cannot_be_parsed(publishes: int) -> None:
    talk = talk_of(chaos_corrupt="100%")
    for _ in range(publishes):
        code, text = talk.refused(talk.publish())
        assert code == INTERNAL
        assert "injected by chaos_corrupt" in text
    assert talk.wire.closed is None
    talk.hang_up()
