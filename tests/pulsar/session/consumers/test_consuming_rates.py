"""Dispatch rates: messages are withheld until their turn, and permits only as far as there is room."""

import pytest
from tests.pulsar.session.deliveries import (
    EXCLUSIVE,
    SHARED,
    attach,
    delivered,
    flow,
    message,
    permits,
    state_of,
    success,
)
from tests.pulsar.session.messages import TYPES, frame
from tests.pulsar.session.wire import Bench, Wire

from sluicegate_pulsar.session.consumers.withheld import OVERHEAD

MIB = 1024 * 1024


@pytest.mark.seed("S1-006", "S1-071", "S1-076")
def test_a_topic_is_delivered_at_its_rate_and_nothing_is_lost() -> None:
    wire = Wire(Bench(max_dispatch_rate=10))
    attach(wire)
    wire.client_sends(flow(1000))
    wire.broker_sends(*[message(number) for number in range(40)])
    assert delivered(wire) == list(range(10))
    arrived = []
    wire.wait(0.05)  # so that what is due is not due at the end of a step
    for _ in range(30):
        wire.wait(0.1)
        arrived.append(len(delivered(wire)))
    assert sum(arrived) == 30
    assert set(arrived) == {1}
    assert (wire.session.held_bytes, wire.shared.budget.used) == (0, 0)


def test_a_count_that_the_payload_cannot_hold_uses_up_no_rate() -> None:
    wire = Wire(Bench(max_dispatch_rate=500))
    attach(wire)
    wire.broker_sends(message(0, num_messages_in_batch=2**31 - 1), message(1))
    assert delivered(wire) == [0, 1]  # the client reports what is wrong with the first
    assert wire.shared.counts["unreadable_message_passed"] == 1


def test_order_is_kept_across_withheld_messages() -> None:
    wire = Wire(Bench(max_dispatch_rate=10))
    attach(wire)
    wire.broker_sends(*[message(number) for number in range(12)])
    wire.wait(0.15)
    wire.broker_sends(message(12))
    wire.wait(1)
    wire.broker_sends(message(13))
    assert delivered(wire) == list(range(14))


@pytest.mark.seed("S1-007", "S1-080", "S1-082")
def test_subscription_and_topic_rates_both_apply() -> None:
    wire = Wire(Bench(max_subscription_dispatch_rate=5, max_dispatch_rate=8))
    attach(wire, 0, 1, subscription="a")
    attach(wire, 1, 2, subscription="b")
    wire.broker_sends(*[message(number) for number in range(6)])
    wire.broker_sends(*[message(10 + number, consumer_id=1) for number in range(6)])
    assert delivered(wire) == [0, 1, 2, 3, 4, 10, 11, 12]


def test_the_consumers_of_a_subscription_share_its_rate() -> None:
    wire = Wire(Bench(max_subscription_dispatch_rate=10))
    attach(wire, 0, 1)
    attach(wire, 1, 2)
    wire.broker_sends(*[message(number, consumer_id=number % 2) for number in range(60)])
    wire.wait(2.05)
    assert len(delivered(wire)) == 30
    assert state_of(wire).dispatched_messages == 30


def test_bytes_and_batches_count_as_they_are() -> None:
    wire = Wire(Bench(max_dispatch_rate_bytes=1000))
    attach(wire)
    wire.broker_sends(*[message(number, b"x" * 400) for number in range(4)])
    assert delivered(wire) == [0, 1]
    wire = Wire(Bench(max_dispatch_rate=10))
    attach(wire)
    wire.broker_sends(*[message(number, num_messages_in_batch=5) for number in range(4)])
    assert delivered(wire) == [0, 1]
    wire.wait(0.4)
    assert delivered(wire) == []
    wire.wait(0.11)
    assert delivered(wire) == [2]


@pytest.mark.parametrize("rate", [7, 100, 1500])
def test_a_rate_is_kept_within_half_a_percent(rate: int) -> None:
    wire = Wire(Bench(max_dispatch_rate=rate), consumer_buffer="64MiB")
    attach(wire)
    wire.client_sends(flow(20 * rate))
    sent = got = 0
    at_5 = 0
    for tenth in range(250):
        while sent < got + rate + 100:
            wire.broker_sends(message(sent))
            sent += 1
        wire.wait(0.1)
        wire.forget()
        got += len(wire.sent_down())
        if tenth == 49:
            at_5 = got
    assert abs((got - at_5) / (20 * rate) - 1) <= 0.005 or abs(got - at_5 - 20 * rate) <= 1


def test_unreliable_messages_are_dropped_by_policy() -> None:
    topic = "non-persistent://public/default/news"
    wire = Wire(Bench({"on_limit.max_dispatch_rate": "drop"}, max_dispatch_rate=2))
    attach(wire, topic=topic)
    wire.client_sends(flow(3))
    assert permits(wire) == 3
    wire.broker_sends(*[message(number) for number in range(3)])
    assert delivered(wire) == [0, 1]
    wire.wait(5)
    assert delivered(wire) == []
    # The client never saw it, so it will not grant a permit for it again.
    assert permits(wire) == 1
    reliable = Wire(Bench({"on_limit.max_dispatch_rate": "drop"}, max_dispatch_rate=2))
    attach(reliable)
    reliable.broker_sends(*[message(number) for number in range(3)])
    reliable.wait(1)
    assert delivered(reliable) == [0, 1, 2]


# -- permits --------------------------------------------------------------------------------------------


def test_permits_are_forwarded_as_far_as_there_is_room() -> None:
    wire = Wire(Bench(max_dispatch_rate=1), consumer_buffer="1MiB")
    attach(wire)
    wire.client_sends(flow(1000))
    first = permits(wire)
    assert 0 < first < 1000
    wire.broker_sends(*[message(number, b"x" * 10_000) for number in range(first)])
    more = permits(wire)
    assert wire.session.held_bytes + (more + first) * 10_000 <= 2 * MIB
    wire.wait(first)
    # All that were granted get through in the end, and not one more.
    sent, total = first, first + more + permits(wire)
    for _ in range(2000):
        if sent == total == 1000:
            break
        wire.broker_sends(*[message(number, b"x" * 10_000) for number in range(sent, total)])
        sent = total
        assert wire.session.held_bytes <= MIB
        wire.wait(1)
        wire.forget()
        total += permits(wire)
    assert total == 1000
    wire.wait(1000)
    assert delivered(wire) == list(range(1000))


def test_a_message_larger_than_the_buffer_passes_alone() -> None:
    wire = Wire(Bench(max_dispatch_rate=1), consumer_buffer="10KiB")
    attach(wire)
    wire.client_sends(flow(3))
    for number in range(3):
        assert permits(wire) == 1
        wire.broker_sends(message(number, b"x" * 50_000))
        wire.wait(1)
    assert delivered(wire) == [0, 1, 2]


def test_batches_may_take_more_permits_than_are_left() -> None:
    wire = Wire(Bench(max_dispatch_rate=1000), consumer_buffer="128KiB")
    attach(wire)
    wire.client_sends(flow(100))
    first = permits(wire)
    assert first < 100
    wire.broker_sends(message(1, num_messages_in_batch=60))
    wire.client_sends(flow(60))
    second = permits(wire)
    assert second > 0
    assert first + second > 60


def test_acknowledged_messages_of_a_batch_take_no_permits() -> None:
    wire = Wire(Bench(max_dispatch_rate=10), consumer_buffer="128KiB")
    attach(wire)
    wire.client_sends(flow(1))
    assert permits(wire) == 1
    wire.broker_sends(message(1, command={"ack_set": [0b1000]}, num_messages_in_batch=50))
    assert delivered(wire) == [1]
    wire.broker_sends(*[message(number) for number in range(2, 11)])
    assert len(delivered(wire)) == 9


def test_an_overfull_buffer_reopens_the_consumer_with_fewer_permits() -> None:
    bench = Bench()
    wire = Wire(bench, consumer_buffer="1MiB")
    attach(wire)
    wire.client_sends(flow(1000))
    assert permits(wire) == 1000
    bench.set(max_dispatch_rate=1)
    wire.broker_sends(*[message(number, b"x" * 100_000) for number in range(15)])
    answers = wire.answered()
    assert [each.type for each in answers] == [TYPES.MESSAGE, TYPES.CLOSE_CONSUMER]
    (close,) = wire.forwarded()
    assert close.type == TYPES.CLOSE_CONSUMER
    assert (wire.session.held_bytes, wire.shared.budget.used) == (0, 0)
    assert state_of(wire).consumer_count == 0
    # What was on its way is discarded, even if the client has come back already.
    wire.client_sends(
        frame("subscribe", topic="orders", subscription="sub", consumer_id=0, request_id=9, sub_type=1)
    )
    wire.broker_sends(message(20, b"x" * 100_000))
    wire.broker_sends(success(close.close_consumer.request_id), success(9))
    assert [each.success.request_id for each in wire.answered()] == [9]
    wire.sent_up()
    wire.client_sends(flow(1000))
    assert 0 < permits(wire) <= 5
    wire.wait(1)
    wire.broker_sends(message(1, b"x" * 100_000))
    assert delivered(wire) == [1]
    assert wire.shared.counts["consumer_overfull"] == 1


def test_bytes_of_all_clients_together_are_bounded() -> None:
    bench = Bench(max_dispatch_rate=1)
    bench.budget.limit = 1000
    wire = Wire(bench)
    attach(wire)
    wire.broker_sends(message(1), message(2, b"x" * 2000))
    assert [each.type for each in wire.answered()] == [TYPES.MESSAGE, TYPES.CLOSE_CONSUMER]
    assert wire.closed is None
    assert bench.budget.used == 0


# -- what ends or changes what is withheld ----------------------------------------------------------------


@pytest.mark.parametrize("who", ["client", "broker", "connection"])
def test_withheld_messages_are_dropped_with_their_consumer(who: str) -> None:
    wire = Wire(Bench(max_dispatch_rate=1))
    attach(wire)
    wire.broker_sends(message(1), message(2), message(3))
    assert delivered(wire) == [1]
    if who == "client":
        wire.client_sends(frame("close_consumer", consumer_id=0, request_id=2))
        wire.broker_sends(message(4), success(2))
        assert [each.type for each in wire.answered()] == [TYPES.SUCCESS]
    elif who == "broker":
        wire.broker_sends(frame("close_consumer", consumer_id=0, request_id=2**64 - 1))
        assert [each.type for each in wire.answered()] == [TYPES.CLOSE_CONSUMER]
    else:
        wire.close()
    assert wire.shared.budget.used == 0
    if who != "connection":
        wire.wait(10)
        assert delivered(wire) == []


@pytest.mark.parametrize("kind", [SHARED, EXCLUSIVE])
def test_redelivery_of_everything_replaces_withheld_messages(kind: int) -> None:
    wire = Wire(Bench(max_dispatch_rate=1))
    attach(wire, kind=kind)
    wire.client_sends(flow(10))
    assert permits(wire) == 10
    wire.broker_sends(message(1), message(2), message(3))
    assert delivered(wire) == [1]
    wire.client_sends(frame("redeliver_unacknowledged_messages", consumer_id=0))
    again, permit = wire.forwarded()
    assert again.type == TYPES.REDELIVER_UNACKNOWLEDGED_MESSAGES
    assert permit.flow.message_permits == 2  # for two messages that the client never saw
    wire.broker_sends(message(1), message(2), message(3))
    wire.wait(10)
    assert delivered(wire) == [1, 2, 3]


def test_redelivery_of_single_messages_keeps_withheld_messages() -> None:
    wire = Wire(Bench(max_dispatch_rate=1))
    attach(wire)
    wire.broker_sends(message(1), message(2))
    nack = frame(
        "redeliver_unacknowledged_messages", consumer_id=0, message_ids=[{"ledger_id": 7, "entry_id": 1}]
    )
    wire.client_sends(nack)
    assert wire.sent_up() == [nack]
    wire.wait(3)
    assert delivered(wire) == [1, 2]


def test_an_unrequested_redelivery_is_delivered_once_and_in_order() -> None:
    wire = Wire(Bench(max_dispatch_rate=1))
    attach(wire, kind=EXCLUSIVE)
    wire.client_sends(flow(10))
    permits(wire)
    wire.broker_sends(message(1), message(4), message(5), message(2), message(3), message(4), message(5))
    wire.wait(20)
    assert delivered(wire) == [1, 2, 3, 4, 5]
    assert permits(wire) == 2
    assert wire.shared.budget.used == 0


def test_small_messages_count_with_the_memory_that_they_take() -> None:
    wire = Wire(Bench(max_dispatch_rate=1), consumer_buffer=100_000)
    attach(wire)
    wire.broker_sends(message(0))  # it passes
    wire.broker_sends(*[message(number) for number in range(1, 201)])
    assert wire.shared.budget.used >= 200 * OVERHEAD
    wire.broker_sends(*[message(number) for number in range(201, 401)])
    assert wire.shared.counts["consumer_overfull"] == 1
    assert wire.shared.budget.used == 0


def test_repeated_redelivery_uses_no_more_memory() -> None:
    wire = Wire(Bench(max_dispatch_rate=1))
    attach(wire)
    wire.broker_sends(message(0), *[message(number % 3 + 1) for number in range(5_000)])
    while wire.take_turn():
        pass
    queue = wire.session.consuming._delivering.consumers[0]._queue
    assert len(queue) <= 1_100
    assert wire.shared.budget.used == (len(message(1)) + OVERHEAD) * 3
    wire.wait(5)
    assert delivered(wire) == [0, 3, 1, 2]
    assert wire.shared.budget.used == 0


def test_an_inactive_consumer_gets_no_more_messages() -> None:
    wire = Wire(Bench(max_dispatch_rate=1))
    attach(wire)
    wire.client_sends(flow(10))
    wire.broker_sends(message(1), message(2), message(3))
    permits(wire)
    wire.broker_sends(frame("active_consumer_change", consumer_id=0, is_active=False))
    assert [each.type for each in wire.answered()] == [TYPES.MESSAGE, TYPES.ACTIVE_CONSUMER_CHANGE]
    assert permits(wire) == 2
    wire.wait(10)
    assert delivered(wire) == []


@pytest.mark.parametrize("succeeds", [True, False])
def test_a_successful_seek_drops_withheld_messages(succeeds: bool) -> None:
    wire = Wire(Bench(max_dispatch_rate=1))
    attach(wire)
    wire.broker_sends(message(1), message(2), message(3))
    wire.client_sends(frame("seek", consumer_id=0, request_id=5, message_publish_time=0))
    wire.broker_sends(success(5) if succeeds else frame("error", request_id=5, error=0, message="no"))
    wire.sent_down()
    wire.wait(10)
    assert delivered(wire) == ([] if succeeds else [2, 3])


def test_the_end_of_a_topic_follows_its_messages() -> None:
    wire = Wire(Bench(max_dispatch_rate=1))
    attach(wire)
    wire.broker_sends(message(1), message(2), frame("reached_end_of_topic", consumer_id=0))
    assert [each.type for each in wire.answered()] == [TYPES.MESSAGE]
    wire.wait(2)
    assert [each.type for each in wire.answered()] == [TYPES.MESSAGE, TYPES.REACHED_END_OF_TOPIC]
    assert wire.shared.budget.used == 0


def test_a_raised_rate_takes_effect_within_a_second() -> None:
    bench = Bench(max_dispatch_rate=1)
    wire = Wire(bench)
    attach(wire)
    wire.broker_sends(*[message(number) for number in range(50)])
    bench.set(max_dispatch_rate=1000)
    wire.wait(1.1)
    assert len(delivered(wire)) == 50


def test_observed_limits_hold_nothing() -> None:
    wire = Wire(Bench({"mode.max_dispatch_rate": "observe"}, max_dispatch_rate=1))
    attach(wire)
    wire.client_sends(flow(100))
    wire.broker_sends(*[message(number) for number in range(10)])
    assert delivered(wire) == list(range(10))
    assert state_of(wire).observed > 0


def test_no_permits_are_granted_for_a_consumer_that_is_closed() -> None:
    wire = Wire(Bench(max_dispatch_rate=1))
    attach(wire)
    wire.client_sends(flow(5))
    wire.broker_sends(*[message(number) for number in range(5)])
    wire.client_sends(frame("close_consumer", consumer_id=0, request_id=2))
    wire.sent_up()
    wire.wait(5)
    assert wire.sent_up() == []
