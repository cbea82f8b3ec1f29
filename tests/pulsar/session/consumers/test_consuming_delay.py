"""Fixed delays where the broker delivers at once: the gateway withholds messages until they are due."""

from typing import Any

import pytest
from tests.pulsar.session.deliveries import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    SHARED,
    attach,
    delivered,
    flow,
    message,
    permits,
    success,
)
from tests.pulsar.session.messages import TOPIC, TYPES, frame
from tests.pulsar.session.wire import Bench, Wire

DELAY_MS = 1500


def delayed(**options: Any) -> Wire:
    """A connection to a gateway with a fixed delay."""
    policies = {name: value for name, value in options.items() if name != "kind"}
    wire = Wire(Bench(fixed_delivery_delay=DELAY_MS, **policies))
    attach(wire, kind=options.get("kind", EXCLUSIVE))
    return wire


def wall_ms(wire: Wire) -> int:
    """The wall clock at the gateway."""
    return wire.shared.wall_ms(wire.now)


@pytest.mark.seed("S2-024", "S2-006")
@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER])
def test_messages_are_withheld_until_due_and_never_early(kind: int) -> None:
    wire = delayed(kind=kind)
    published = wall_ms(wire) - 500
    wire.broker_sends(*[message(number, publish_time=published + 100 * number) for number in range(5)])
    assert delivered(wire) == []
    lateness = []
    seen = 0
    for _ in range(2000):
        wire.wait(0.001)
        for number in delivered(wire):
            assert number == seen
            lateness.append(wall_ms(wire) - (published + 100 * number + DELAY_MS))
            seen += 1
    assert seen == 5
    assert min(lateness) >= 0
    assert max(lateness) <= 5
    assert wire.shared.budget.used == 0


@pytest.mark.parametrize("told_by", ["broker", "gate"])
def test_a_backdated_message_is_delayed_from_its_arrival(told_by: str) -> None:
    """The broker tells when it came if it is set to, else the delivery time that a gateway gave it does."""
    wire = delayed()
    received_ms = wall_ms(wire) - 500
    name = "broker_ms" if told_by == "broker" else "deliver_at_time"
    at_ms = received_ms if told_by == "broker" else received_ms + DELAY_MS
    told: dict[str, Any] = {name: at_ms}
    honest: dict[str, Any] = {name: at_ms - 3_600_000}
    published_ms = received_ms - 3_600_000
    wire.broker_sends(
        message(0, publish_time=published_ms, **honest), message(1, publish_time=published_ms, **told)
    )
    assert delivered(wire) == [0]
    wire.wait(0.99)
    assert delivered(wire) == []
    wire.wait(0.02)
    assert delivered(wire) == [1]


@pytest.mark.parametrize("kind", [SHARED, KEY_SHARED])
def test_messages_delayed_by_the_broker_pass_at_once(kind: int) -> None:
    wire = delayed(kind=kind)
    wire.broker_sends(message(1, publish_time=wall_ms(wire) - DELAY_MS))
    assert delivered(wire) == [1]


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("kind", [SHARED, KEY_SHARED])
def test_messages_the_broker_failed_to_delay_are_withheld(kind: int, active: bool) -> None:
    """Whether its delayed delivery is active can change at any time, and not only through the gateway."""
    wire = delayed(kind=kind, delayed_delivery_active=active)
    wire.broker_sends(message(1, publish_time=wall_ms(wire)))
    wire.wait(1.4)
    assert delivered(wire) == []
    wire.wait(0.2)
    assert delivered(wire) == [1]


def test_permits_pass_unchanged_if_the_broker_delays() -> None:
    """What is withheld needs bounds, and nothing is."""
    wire = delayed(kind=SHARED)
    wire.client_sends(flow(1_000))
    assert permits(wire) == 1_000
    published = wall_ms(wire) - DELAY_MS
    wire.broker_sends(*[message(number, bytes(9_000), publish_time=published) for number in range(100)])
    assert len(delivered(wire)) == 100
    assert wire.sent_up() == []


def test_a_full_buffer_reopens_the_consumer_if_the_broker_does_not_delay() -> None:
    wire = Wire(Bench(fixed_delivery_delay=DELAY_MS), consumer_buffer=40_000)
    attach(wire, kind=SHARED)
    wire.client_sends(flow(1_000))
    assert permits(wire) == 1_000
    now = wall_ms(wire)
    wire.broker_sends(*[message(number, bytes(9_000), publish_time=now) for number in range(5)])
    assert [TYPES.Name(answer.type) for answer in wire.answered()] == ["CLOSE_CONSUMER"]
    assert wire.shared.budget.used == 0
    wire.sent_up()
    attach(wire, kind=SHARED, consumer_id=1, request_id=9)
    wire.client_sends(flow(1_000, consumer_id=1))
    assert 0 < permits(wire) < 5


def test_a_redelivery_request_drops_withheld_messages() -> None:
    wire = delayed(kind=SHARED)
    wire.client_sends(flow(3))
    wire.broker_sends(message(1, publish_time=wall_ms(wire)))
    permits(wire)
    wire.wait(1.4)
    again = frame("redeliver_unacknowledged_messages", consumer_id=0)
    wire.client_sends(again)
    assert wire.sent_up()[0] == again
    wire.wait(1)
    assert delivered(wire) == []  # the broker has it, and sends it again
    assert wire.shared.budget.used == 0


NOT_KEPT = "non-persistent://public/default/news"


@pytest.mark.parametrize("clock", ["publish_time", "receive_time"])
def test_non_persistent_messages_share_an_id_and_none_is_lost_or_early(clock: str) -> None:
    wire = Wire(Bench(fixed_delivery_delay=DELAY_MS, delay_clock=clock))
    attach(wire, topic=NOT_KEPT)
    sent = []
    for number in range(3):
        sent.append(message(0, b"%d" % number, publish_time=wall_ms(wire)))
        wire.broker_sends(sent[-1])
        wire.wait(1)
        assert wire.sent_down() == sent[max(0, number - 1) : number]
    wire.client_sends(frame("redeliver_unacknowledged_messages", consumer_id=0))
    wire.wait(0.6)
    assert wire.sent_down() == sent[2:]  # the broker would not send it again
    assert wire.shared.budget.used == 0


def test_a_non_persistent_message_without_room_is_dropped_alone() -> None:
    wire = Wire(Bench(fixed_delivery_delay=DELAY_MS), consumer_buffer=3_000)
    attach(wire, kind=SHARED, topic=NOT_KEPT)
    now = wall_ms(wire)
    wire.broker_sends(*[message(0, b"%d" % number * 1_000, publish_time=now) for number in range(4)])
    wire.wait(2)
    assert len(wire.sent_down()) == 2
    assert wire.shared.counts["dispatch_dropped"] == 2
    assert wire.shared.budget.used == 0


def test_non_persistent_messages_are_withheld_on_every_subscription() -> None:
    wire = Wire(Bench(fixed_delivery_delay=DELAY_MS))
    attach(wire, kind=SHARED, topic=NOT_KEPT)
    wire.broker_sends(message(1, publish_time=wall_ms(wire)))
    wire.wait(1.4)
    assert delivered(wire) == []
    wire.wait(0.2)
    assert delivered(wire) == [1]


def test_a_reader_is_delayed_as_well() -> None:
    wire = Wire(Bench(fixed_delivery_delay=DELAY_MS))
    attach(wire, kind=EXCLUSIVE, subscription="reader-1", durable=False)
    wire.broker_sends(message(1, publish_time=wall_ms(wire)))
    assert delivered(wire) == []
    wire.wait(1.6)
    assert delivered(wire) == [1]


def test_messages_published_long_ago_are_due() -> None:
    wire = delayed()
    old = message(1, publish_time=wall_ms(wire) - 10_000)
    wire.broker_sends(old)
    assert wire.sent_down() == [old]


@pytest.mark.seed("S2-003")
def test_a_delivery_time_requested_by_the_client_changes_nothing() -> None:
    wire = delayed()
    now_ms = wall_ms(wire)
    wire.broker_sends(
        message(1, publish_time=now_ms, deliver_at_time=now_ms + 1),
        message(2, publish_time=now_ms, deliver_at_time=now_ms + 3_600_000),
    )
    wire.wait(1.4)
    assert delivered(wire) == []
    wire.wait(0.2)
    assert delivered(wire) == [1, 2]


def test_order_is_kept_if_a_later_message_is_due_earlier() -> None:
    wire = delayed()
    now_ms = wall_ms(wire)
    wire.broker_sends(message(1, publish_time=now_ms), message(2, publish_time=now_ms - 5000))
    assert delivered(wire) == []
    wire.wait(1.6)
    assert delivered(wire) == [1, 2]


@pytest.mark.seed("S2-009")
def test_a_publish_time_too_far_ahead_is_ignored() -> None:
    wire = delayed()
    far = message(1, publish_time=wall_ms(wire) + 10 * 3_600_000)
    wire.broker_sends(far)
    wire.wait(1)
    assert delivered(wire) == []
    # When it comes again, as after the loss of its consumer, the delay does not start again.
    wire.broker_sends(frame("close_consumer", consumer_id=0, request_id=2**64 - 1))
    wire.answered()
    attach(wire, request_id=2, kind=EXCLUSIVE)
    wire.broker_sends(far)
    wire.wait(0.6)
    assert delivered(wire) == [1]


def test_receive_time_comes_from_the_broker_entry_metadata() -> None:
    wire = delayed(delay_clock="receive_time")
    now_ms = wall_ms(wire)
    wire.broker_sends(message(1, publish_time=1, broker_ms=now_ms - 1000))
    wire.wait(0.4)
    assert delivered(wire) == []
    wire.wait(0.2)
    assert delivered(wire) == [1]


def test_receive_time_respects_a_rewritten_delivery_time() -> None:
    wire = delayed(delay_clock="receive_time")
    now_ms = wall_ms(wire)
    wire.broker_sends(message(1, publish_time=1, deliver_at_time=now_ms + 500))
    wire.wait(0.4)
    assert delivered(wire) == []
    wire.wait(0.2)
    assert delivered(wire) == [1]
    # One that no gateway can have written was asked for by a client before the delay was set.
    wire.broker_sends(message(2, publish_time=1, deliver_at_time=now_ms + 100_000))
    wire.wait(1.4)
    assert delivered(wire) == []
    wire.wait(0.2)
    assert delivered(wire) == [2]


def test_another_gateway_delivers_what_nothing_dates_later_and_never_earlier() -> None:
    one, other = (delayed(delay_clock="receive_time") for _ in range(2))
    now_ms = wall_ms(other)
    dated, undated = message(1, publish_time=1, deliver_at_time=now_ms + DELAY_MS), message(2, publish_time=1)
    one.broker_sends(dated, undated)
    for wire in (one, other):
        wire.wait(1)
    other.broker_sends(dated, undated)  # its consumer has gone to the other gateway
    for wire in (one, other):
        wire.wait(0.6)
    assert delivered(one) == [1, 2]
    assert delivered(other) == [1]
    other.wait(0.8)
    assert delivered(other) == []
    other.wait(0.2)
    assert delivered(other) == [2]


def test_setting_a_delay_withholds_and_removing_it_releases() -> None:
    bench = Bench()
    wire = Wire(bench)
    attach(wire, kind=EXCLUSIVE)
    bench.set_topic(TOPIC, fixed_delivery_delay=60_000)
    wire.broker_sends(message(1, publish_time=wall_ms(wire)))
    wire.wait(5)
    assert delivered(wire) == []
    bench.set()
    wire.wait(1)
    assert delivered(wire) == [1]


def test_a_shorter_delay_takes_effect_within_a_second() -> None:
    bench = Bench(fixed_delivery_delay=3_600_000)
    wire = Wire(bench)
    attach(wire, kind=EXCLUSIVE)
    wire.broker_sends(message(1, publish_time=wall_ms(wire)))
    wire.wait(10)
    bench.set(fixed_delivery_delay=1000)
    wire.wait(1)
    assert delivered(wire) == [1]


def test_an_observed_delay_is_not_applied() -> None:
    wire = Wire(Bench({"mode.fixed_delivery_delay": "observe"}, fixed_delivery_delay=DELAY_MS))
    attach(wire, kind=EXCLUSIVE)
    wire.broker_sends(message(1, publish_time=wall_ms(wire)))
    assert delivered(wire) == [1]


def test_a_backlog_stays_at_the_broker() -> None:
    wire = Wire(Bench(fixed_delivery_delay=DELAY_MS), consumer_buffer="1MiB")
    attach(wire, kind=EXCLUSIVE)
    wire.client_sends(flow(1000))
    granted = sent = 0
    published = wall_ms(wire)
    got: list[int] = []
    for _ in range(100):
        granted += permits(wire)
        wire.broker_sends(
            *[message(number, b"x" * 20_000, publish_time=published) for number in range(sent, granted)]
        )
        sent = granted
        assert wire.session.held_bytes <= 1024 * 1024
        wire.wait(0.1)
        got += delivered(wire)
    assert got == list(range(1000))
    assert granted == 1000


@pytest.mark.seed("S2-022")
def test_a_batch_is_delayed_whole() -> None:
    wire = delayed()
    wire.client_sends(flow(10))
    permits(wire)
    batch = message(1, publish_time=wall_ms(wire), num_messages_in_batch=10)
    wire.broker_sends(batch)
    wire.wait(1.6)
    assert wire.sent_down() == [batch]


def test_a_redelivered_message_is_due_already() -> None:
    wire = delayed()
    published = wall_ms(wire)
    wire.broker_sends(message(1, publish_time=published))
    wire.wait(1.6)
    assert delivered(wire) == [1]
    wire.client_sends(frame("redeliver_unacknowledged_messages", consumer_id=0))
    wire.broker_sends(message(1, publish_time=published))
    assert delivered(wire) == [1]


def test_a_failover_to_another_consumer_delivers_once() -> None:
    wire = delayed(kind=FAILOVER)
    attach(wire, 1, 2, kind=FAILOVER)
    published = wall_ms(wire)
    wire.broker_sends(message(1, publish_time=published), message(2, publish_time=published))
    wire.wait(0.5)
    wire.broker_sends(
        frame("active_consumer_change", consumer_id=0, is_active=False),
        frame("active_consumer_change", consumer_id=1, is_active=True),
        message(1, consumer_id=1, publish_time=published),
        message(2, consumer_id=1, publish_time=published),
    )
    assert [each.type for each in wire.answered()] == [TYPES.ACTIVE_CONSUMER_CHANGE] * 2
    wire.wait(1.1)
    answers = wire.answered()
    assert [(each.message.consumer_id, each.message.message_id.entry_id) for each in answers] == [
        (1, 1),
        (1, 2),
    ]


def test_a_returning_consumer_gets_undelivered_messages() -> None:
    wire = delayed()
    published = wall_ms(wire)
    wire.broker_sends(message(1, publish_time=published))
    wire.client_sends(frame("close_consumer", consumer_id=0, request_id=2))
    wire.broker_sends(success(2))
    wire.sent_up()
    wire.sent_down()
    attach(wire, 1, 3, kind=EXCLUSIVE)
    wire.broker_sends(message(1, consumer_id=1, publish_time=published))
    wire.wait(1.6)
    assert delivered(wire) == [1]


def test_a_rate_and_a_delay_apply_together() -> None:
    wire = delayed(max_dispatch_rate=2)
    published = wall_ms(wire)
    wire.broker_sends(*[message(number, publish_time=published) for number in range(6)])
    wire.wait(1.6)
    assert delivered(wire) == [0, 1]
    wire.wait(2)
    assert delivered(wire) == [2, 3, 4, 5]


def test_other_frames_overtake_withheld_messages() -> None:
    wire = delayed()
    wire.broker_sends(message(1, publish_time=wall_ms(wire)), frame("ping"))
    assert [each.type for each in wire.answered()] == [TYPES.PING]


def test_a_millisecond_before_its_time_a_message_waits() -> None:
    wire = delayed()
    wire.broker_sends(message(1, publish_time=wall_ms(wire) - DELAY_MS + 1))
    assert delivered(wire) == []
    wire.wait(0.002)
    assert delivered(wire) == [1]
