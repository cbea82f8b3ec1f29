"""Publish rates: messages above them wait in a queue of their producer, in order; others do not wait."""

import pytest
from tests.pulsar.session.messages import (
    TYPES,
    frame,
    parse,
    producer,
    producer_success,
    receipt,
    send,
)
from tests.pulsar.session.wire import Bench, Wire

pytestmark = pytest.mark.seed("S1-005", "S1-061")

CLOSE = frame("close_producer", producer_id=0, request_id=9)
TXN = {"txnid_least_bits": 7, "txnid_most_bits": 1}


def opened(bench: Bench, *topics: str, **options: object) -> Wire:
    """A connection with a producer on each of these topics, numbered from 0."""
    wire = Wire(bench, **options)  # type: ignore[arg-type]
    for number, topic in enumerate(topics or ("slow",)):
        wire.client_sends(producer(number, request_id=number, topic=topic))
        wire.broker_sends(producer_success(number, f"p-{number}"))
    wire.sent_up()
    wire.sent_down()
    return wire


def slow_and_fast() -> Bench:
    """A topic with one message a second, and all others without a limit."""
    bench = Bench()
    bench.set_topic("slow", max_publish_rate=1)
    return bench


def sequences(wire: Wire) -> list[tuple[int, int]]:
    """Producer and sequence ids of what reached the broker since the last call."""
    return [(command.send.producer_id, command.send.sequence_id) for command in wire.forwarded()]


def test_messages_above_the_rate_wait_in_order() -> None:
    bench = slow_and_fast()
    wire = opened(bench)
    frames = [send(number) for number in range(4)]
    wire.client_sends(*frames)
    assert wire.sent_up() == frames[:1]
    wire.wait(1.01)
    assert wire.sent_up() == frames[1:2]
    wire.wait(2.02)
    assert wire.sent_up() == frames[2:]
    assert bench.budget.used == 0
    assert wire.session.held_bytes == 0


def test_any_window_passes_at_most_rate_and_burst() -> None:
    bench = Bench(max_publish_rate=100)
    wire = opened(bench)
    wire.client_sends(*[send(number) for number in range(1_000)])
    assert len(wire.sent_up()) == 100
    for _ in range(5):
        wire.wait(1)
        assert 99 <= len(wire.sent_up()) <= 101


def test_other_producers_of_the_connection_continue() -> None:
    wire = opened(slow_and_fast(), "slow", "fast")
    wire.client_sends(*[send(number) for number in range(100)])
    wire.sent_up()
    wire.client_sends(*[send(number, producer_id=1) for number in range(100)])
    assert sequences(wire) == [(1, number) for number in range(100)]
    assert not wire.is_paused


def test_other_commands_pass_meanwhile() -> None:
    wire = opened(slow_and_fast())
    pong = frame("pong")
    wire.client_sends(send(0), send(1), pong)
    assert wire.sent_up() == [send(0), pong]


def test_a_message_waits_longer_than_max_hold_as_at_the_broker() -> None:
    bench = Bench(max_publish_rate=0.05)
    wire = opened(bench, max_hold="2s")
    wire.client_sends(send(0), send(1))
    wire.wait(19)
    assert (sequences(wire), wire.sent_down()) == ([(0, 0)], [])
    wire.wait(1.1)
    assert sequences(wire) == [(0, 1)]


def test_waiting_messages_are_dropped_with_their_client() -> None:
    bench = slow_and_fast()
    wire = opened(bench)
    wire.client_sends(*[send(number) for number in range(5)])
    wire.sent_up()
    wire.wait(1.1, client_gone=True)
    assert wire.sent_up() == []
    assert wire.closed is not None
    wire.close()
    assert bench.budget.used == 0
    line = bench.gates.states["persistent://public/default/slow"].limiters["max_publish_rate"]
    assert line.first is None


def test_waiting_messages_are_dropped_when_the_broker_closes_the_producer() -> None:
    bench = slow_and_fast()
    wire = opened(bench)
    wire.client_sends(send(0), send(1))
    wire.sent_up()
    wire.broker_sends(frame("close_producer", producer_id=0, request_id=0))
    wire.wait(5)
    assert wire.sent_up() == []
    assert bench.budget.used == 0


def test_a_close_does_not_overtake_messages() -> None:
    bench = slow_and_fast()
    wire = opened(bench)
    wire.client_sends(send(0), send(1), CLOSE, CLOSE)
    assert wire.sent_up() == [send(0)]
    assert len(bench.gates.states["persistent://public/default/slow"].producers) == 1
    wire.wait(1.1)
    assert wire.sent_up() == [send(1), CLOSE, CLOSE]
    assert len(bench.gates.states["persistent://public/default/slow"].producers) == 0
    assert bench.budget.used == 0


def test_a_waiting_close_is_answered_when_the_broker_closes_the_producer() -> None:
    bench = slow_and_fast()
    wire = opened(bench)
    wire.client_sends(send(0), send(1), CLOSE)
    wire.sent_up()
    wire.broker_sends(frame("close_producer", producer_id=0, request_id=0))
    assert {each.type for each in wire.answered()} == {TYPES.SUCCESS, TYPES.CLOSE_PRODUCER}
    wire.wait(5)
    assert wire.sent_up() == []
    wire.close()
    assert bench.budget.used == 0


def test_nothing_is_forwarded_after_a_close() -> None:
    wire = opened(slow_and_fast())
    wire.client_sends(send(0), send(1), CLOSE, send(2))
    assert wire.closed is not None
    assert wire.closed.counter == "send_without_producer"


def test_the_end_of_a_transaction_does_not_overtake_its_messages() -> None:
    bench = slow_and_fast()
    wire = opened(bench, "slow", "fast")
    mine, other = frame("end_txn", request_id=5, **TXN), frame("end_txn", request_id=6, txnid_least_bits=8)
    wire.client_sends(send(0), send(1, command=TXN), send(2, command=TXN), send(3), mine, other)
    assert wire.sent_up() == [send(0), other]
    wire.wait(2.1)
    assert wire.sent_up() == [send(1, command=TXN), send(2, command=TXN), mine]
    wire.wait(1)
    assert bench.budget.used == 0


def test_removing_limits_releases_all_messages() -> None:
    bench = slow_and_fast()
    wire = opened(bench)
    frames = [send(number) for number in range(5)]
    wire.client_sends(*frames)
    bench.set()
    wire.wait(1)
    assert wire.sent_up() == frames


@pytest.mark.seed("S1-062")
def test_on_limit_reject_refuses_messages() -> None:
    wire = opened(Bench({"on_limit.max_publish_rate": "reject"}, max_publish_rate=1))
    wire.client_sends(send(0), send(1))
    wire.broker_sends(receipt(0))
    first, second = wire.answered()
    assert (first.send_receipt.sequence_id, second.send_error.sequence_id) == (0, 1)
    assert second.send_error.message.startswith("Publish rate limit exceeded for topic persistent://")
    assert "[sluicegate " in second.send_error.message


def test_refusals_keep_their_place_in_the_queue() -> None:
    bench = slow_and_fast()
    wire = opened(bench)
    wire.client_sends(send(0), send(1, b"1234"), send(2, b"12345"), send(3, b"1234"))
    bench.set(max_publish_rate=1, max_message_size=4)
    assert wire.sent_down() == []
    wire.wait(3)
    assert sequences(wire) == [(0, 0), (0, 1), (0, 3)]
    assert wire.sent_down() == []
    wire.broker_sends(receipt(0), receipt(1), receipt(3))
    assert [TYPES.Name(answer.type) for answer in wire.answered()] == [
        "SEND_RECEIPT",
        "SEND_RECEIPT",
        "SEND_ERROR",
        "SEND_RECEIPT",
    ]


def test_chunks_of_a_refused_message_are_refused_too() -> None:
    wire = opened(Bench({"on_limit.max_publish_rate": "reject"}, max_publish_rate=1))
    piece = {"is_chunk": True}
    wire.client_sends(send(0, command=piece), send(0, command=piece))
    wire.wait(1)
    wire.client_sends(send(0, command=piece), send(1, command=piece))
    assert sequences(wire) == [(0, 0), (0, 1)]


def test_the_gateway_answers_keepalives_while_reading_is_paused() -> None:
    wire = opened(Bench(max_subscriptions_per_topic=1))
    wire.client_sends(producer(7, request_id=7, topic="slow", initial_subscription_name="s"))
    paused = wire.is_paused
    wire.broker_sends(frame("ping"))
    assert paused
    assert [parse(sent).type for sent in wire.sent_up()] == [TYPES.PONG]
    assert [answer.type for answer in wire.answered()] == [TYPES.PING]


def test_a_producer_with_nothing_waiting_is_decided_by_its_commands_alone_again() -> None:
    wire = opened(slow_and_fast(), "slow")
    wire.client_sends(send(0), send(1))
    (known,) = wire.session.producing._live.values()
    assert not known.is_plain
    wire.wait(2)
    assert [number for _, number in sequences(wire)] == [0, 1]
    assert known.is_plain
