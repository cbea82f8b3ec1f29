"""A gateway that ends tells Pulsar clients to reopen everything, once no message of theirs is in doubt."""

import pytest
from tests.pulsar.session.deliveries import attach
from tests.pulsar.session.messages import TYPES, connect, producer, producer_success, receipt, send
from tests.pulsar.session.producers.test_producing import opened
from tests.pulsar.session.wire import Bench, Wire

from sluicegate_pulsar.codec import pulsar_pb2 as pb


def ends(wire: Wire) -> list[int]:
    """Types of the commands that the client gets now, all of them if it is closed."""
    wire.carry_out(wire.session.ending(wire.now))
    return [answer.type for answer in wire.answered()]


def test_a_client_is_asked_to_reopen_producers_and_consumers() -> None:
    wire = opened(Bench(), "a", "b")
    attach(wire, consumer_id=5)
    wire.sent_down()
    told = ends(wire)
    assert told == [TYPES.CLOSE_PRODUCER, TYPES.CLOSE_PRODUCER, TYPES.CLOSE_CONSUMER]
    assert wire.closed is not None


def test_a_producer_is_closed_only_after_its_receipts() -> None:
    """A client sends again what has no receipt when it reopens its producer."""
    wire = opened(Bench(), "a")
    wire.client_sends(send(0), send(1))
    wire.broker_sends(receipt(0))
    wire.sent_down()
    assert ends(wire) == []
    assert wire.closed is None
    wire.broker_sends(receipt(1))
    assert ends(wire) == [TYPES.SEND_RECEIPT, TYPES.CLOSE_PRODUCER]
    assert wire.closed is not None


def test_messages_held_by_a_rate_are_discarded_for_a_resend() -> None:
    wire = opened(Bench(max_publish_rate=1), "a")
    wire.client_sends(send(0), send(1), send(2))
    assert len(wire.sent_up()) == 1
    assert wire.session.held_bytes > 0
    assert ends(wire) == []
    wire.broker_sends(receipt(0))
    assert ends(wire) == [TYPES.SEND_RECEIPT, TYPES.CLOSE_PRODUCER]
    assert wire.session.held_bytes == 0
    wire.wait(5)
    assert wire.sent_up() == []


def test_a_refusal_keeps_its_place_behind_receipts() -> None:
    wire = opened(Bench(max_message_size=10), "a")
    wire.client_sends(send(0), send(1, b"x" * 11))
    assert ends(wire) == []
    wire.broker_sends(receipt(0))
    assert ends(wire) == [TYPES.SEND_RECEIPT, TYPES.SEND_ERROR, TYPES.CLOSE_PRODUCER]


def test_a_partial_message_is_dropped() -> None:
    wire = opened(Bench(), "a")
    wire.client_sends(send(0)[:-2])
    assert ends(wire) == [TYPES.CLOSE_PRODUCER]
    assert wire.session.held_bytes == 0
    assert wire.sent_up() == []


def test_a_producer_that_is_about_to_be_opened_is_answered_first() -> None:
    wire = Wire(Bench(max_producers_per_topic=1))
    wire.client_sends(producer())
    assert ends(wire) == []
    assert wire.closed is None


def test_a_producer_that_waits_for_exclusive_access_keeps_nobody_waiting() -> None:
    """It may wait for ever."""
    wire = Wire(Bench())
    wire.client_sends(producer(producer_access_mode=pb.Producer.WAIT_FOR_EXCLUSIVE))
    wire.broker_sends(producer_success(producer_ready=False))
    ends(wire)
    assert wire.closed is not None


@pytest.mark.parametrize("said", [b"", connect()])
def test_a_client_before_its_login_is_closed(said: bytes) -> None:
    wire = Wire(Bench(), is_open=False)
    wire.client_sends(said)
    assert ends(wire) == []
    assert wire.closed is not None
