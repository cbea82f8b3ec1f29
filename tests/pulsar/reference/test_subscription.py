"""What a subscription delivers to which consumer, by a manual clock."""

import pytest
from tests.pulsar.reference.lab import NOW, Log, consumer, delivered, entries, subscription

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.reference.broker_errors import RefusedError
from sluicegate_pulsar.reference.consumers import Consumer, Deliver, Disconnect, TellActive
from sluicegate_pulsar.reference.delays import DelaySettings
from sluicegate_pulsar.reference.hash_ranges import SLOTS
from sluicegate_pulsar.reference.subscription import Subscription

EXCLUSIVE, SHARED = pb.Subscribe.EXCLUSIVE, pb.Subscribe.SHARED
FAILOVER, KEY_SHARED = pb.Subscribe.FAILOVER, pb.Subscribe.KEY_SHARED
ALL = [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED]
SERVING_MANY = [SHARED, KEY_SHARED]
SERVING_ONE = [EXCLUSIVE, FAILOVER]


def attached(
    sub: Subscription, kind: int, count: int = 1, *, permits: int = 0, keys: pb.KeySharedMeta | None = None
) -> list[Consumer]:
    found = [consumer(number + 1) for number in range(count)]
    for each in found:
        sub.attach(each, kind, NOW, keys)
    for each in found:
        each.permits = permits
    return found


@pytest.mark.parametrize("kind", ALL)
def test_delivers_in_order_within_permits(kind: int) -> None:
    log = Log()
    log.add(5)
    sub = subscription(log)
    (one,) = attached(sub, kind)
    assert sub.pump(NOW) == []
    assert entries(sub.flow(one, 2, NOW)) == [0, 1]
    assert entries(sub.pump(NOW)) == []
    assert entries(sub.flow(one, 9, NOW)) == [2, 3, 4]
    log.add(1)
    assert entries(sub.pump(NOW)) == [5]
    assert one.permits == 5


@pytest.mark.parametrize("kind", ALL)
def test_a_batch_entry_is_delivered_whole(kind: int) -> None:
    log = Log()
    log.add(3, messages=10)
    sub = subscription(log)
    (one,) = attached(sub, kind)
    assert entries(sub.flow(one, 11, NOW)) == [0, 1]
    assert one.permits == -9
    assert entries(sub.flow(one, 9, NOW)) == []
    assert entries(sub.flow(one, 1, NOW)) == [2]


@pytest.mark.parametrize("kind", ALL)
def test_messages_of_a_lost_consumer_are_redelivered(kind: int) -> None:
    log = Log()
    log.add(3)
    sub = subscription(log)
    (one,) = attached(sub, kind)
    sub.flow(one, 3, NOW)
    sub.acknowledge([1], NOW)
    assert sub.detach(one, NOW) == []
    two = consumer(2)
    sub.attach(two, kind, NOW)
    commands = sub.flow(two, 5, NOW)
    assert entries(commands) == [0, 2]
    assert [c.redeliveries for c in commands if isinstance(c, Deliver)] == [0, 0]


def test_exclusive_refuses_a_second_consumer() -> None:
    sub = subscription(Log())
    attached(sub, EXCLUSIVE)
    with pytest.raises(RefusedError, match="Exclusive consumer is already connected") as refused:
        sub.attach(consumer(2), EXCLUSIVE, NOW)
    assert refused.value.code == pb.CONSUMER_BUSY
    assert len(sub.consumers) == 1


def test_refuses_another_type_while_consumers_are_attached() -> None:
    sub = subscription(Log())
    (one,) = attached(sub, SHARED)
    with pytest.raises(RefusedError, match="different type"):
        sub.attach(consumer(2), KEY_SHARED, NOW)
    sub.detach(one, NOW)
    sub.attach(consumer(2), KEY_SHARED, NOW)
    with pytest.raises(RefusedError, match="not 9"):
        subscription(Log()).attach(consumer(), 9, NOW)


def test_shared_takes_turns() -> None:
    log = Log()
    log.add(6)
    sub = subscription(log)
    attached(sub, SHARED, 3, permits=5)
    assert delivered(sub.pump(NOW)) == [(1, 0), (2, 1), (3, 2), (1, 3), (2, 4), (3, 5)]


def test_shared_serves_lower_priority_only_when_others_are_full() -> None:
    log = Log()
    log.add(4)
    sub = subscription(log)
    late, early = consumer(1, priority=1), consumer(2, priority=0)
    for each in (late, early):
        sub.attach(each, SHARED, NOW)
    late.permits = early.permits = 2
    assert delivered(sub.pump(NOW)) == [(2, 0), (2, 1), (1, 2), (1, 3)]


@pytest.mark.parametrize("kind", SERVING_MANY)
def test_redelivers_the_named_messages_and_counts_them(kind: int) -> None:
    log = Log()
    log.add(3)
    sub = subscription(log)
    (one,) = attached(sub, kind, permits=10)
    sub.pump(NOW)
    assert entries(sub.redeliver(one, [1], NOW)) == [1]
    again = sub.redeliver(one, [1, 77], NOW)
    assert [(c.entry.number, c.redeliveries) for c in again if isinstance(c, Deliver)] == [(1, 2)]
    assert entries(sub.redeliver(one, [], NOW)) == [0, 1, 2]


@pytest.mark.parametrize("kind", SERVING_ONE)
def test_redelivers_all_on_ordered_subscriptions(kind: int) -> None:
    log = Log()
    log.add(4)
    sub = subscription(log)
    (one,) = attached(sub, kind, permits=3)
    sub.pump(NOW)
    sub.acknowledge([0], NOW)
    one.permits = 10
    commands = sub.redeliver(one, [2], NOW)
    assert entries(commands) == [1, 2, 3]
    assert {c.redeliveries for c in commands if isinstance(c, Deliver)} == {0}


@pytest.mark.parametrize("kind", SERVING_MANY)
def test_redelivery_of_another_consumers_messages_does_nothing(kind: int) -> None:
    log = Log()
    log.add(1)
    sub = subscription(log)
    one, two = attached(sub, kind, 2, permits=5)
    ((holder, _),) = delivered(sub.pump(NOW))
    other = two if holder == one.id else one
    assert sub.redeliver(other, [0], NOW) == []


def test_cumulative_acknowledgement() -> None:
    log = Log()
    log.add(5)
    sub = subscription(log)
    (one,) = attached(sub, FAILOVER, permits=5)
    sub.pump(NOW)
    sub.acknowledge_upto(2, NOW)
    assert sub.backlog == 2
    assert sub.unacknowledged(one) == [3, 4]
    sub.acknowledge_upto(10_000, NOW)
    assert sub.cursor.mark_delete == 4
    log.add(1)
    one.permits = 1
    assert entries(sub.pump(NOW)) == [5]


@pytest.mark.parametrize("kind", SERVING_MANY)
def test_no_cumulative_acknowledgement_on_shared_subscriptions(kind: int) -> None:
    sub = subscription(Log())
    attached(sub, kind)
    with pytest.raises(RefusedError, match="Cumulative"):
        sub.acknowledge_upto(0, NOW)


def test_acknowledging_unknown_messages_does_nothing() -> None:
    log = Log()
    sub = subscription(log)
    attached(sub, SHARED, permits=5)
    sub.acknowledge([0, 5], NOW)
    log.add(1)
    assert entries(sub.pump(NOW)) == [0]


@pytest.mark.parametrize("kind", SERVING_MANY)
def test_delayed_entries_wait_and_others_pass(kind: int) -> None:
    log = Log()
    log.add(deliver_at=NOW + 1_000)
    log.add()
    sub = subscription(log)
    attached(sub, kind, permits=5)
    assert entries(sub.pump(NOW)) == [1]
    assert sub.wake_at() == NOW + 1_000
    assert entries(sub.pump(NOW + 999)) == []
    assert entries(sub.pump(NOW + 1_099)) == [0]
    assert sub.wake_at() is None


@pytest.mark.parametrize("kind", SERVING_ONE)
def test_exclusive_and_failover_do_not_delay(kind: int) -> None:
    log = Log()
    log.add(deliver_at=NOW + 1_000)
    sub = subscription(log)
    attached(sub, kind, permits=5)
    assert entries(sub.pump(NOW)) == [0]


def test_delay_is_kept_without_permits_and_without_consumers() -> None:
    log = Log()
    log.add(deliver_at=NOW + 100)
    sub = subscription(log)
    (one,) = attached(sub, SHARED, permits=1)
    sub.pump(NOW)
    one.permits = 0
    assert entries(sub.pump(NOW + 100)) == []
    sub.detach(one, NOW + 100)
    assert sub.wake_at() is None
    two = consumer(2)
    sub.attach(two, SHARED, NOW + 200)
    assert entries(sub.flow(two, 1, NOW + 200)) == [0]


def test_a_delayed_message_that_is_acknowledged_is_never_delivered() -> None:
    log = Log()
    log.add(deliver_at=NOW + 100)
    sub = subscription(log)
    attached(sub, SHARED, permits=1)
    sub.pump(NOW)
    sub.acknowledge([0], NOW)
    assert sub.pump(NOW + 200) == []


def test_a_new_subscription_type_drops_earlier_delays() -> None:
    log = Log()
    log.add(deliver_at=NOW + 1_000)
    sub = subscription(log)
    (one,) = attached(sub, SHARED, permits=1)
    sub.pump(NOW)
    sub.detach(one, NOW)
    attached(sub, EXCLUSIVE, permits=1)
    assert entries(sub.pump(NOW)) == [0]


def test_disabling_delays_releases_messages() -> None:
    log = Log()
    log.add(2, deliver_at=NOW + 1_000)
    delay = DelaySettings()
    sub = subscription(log, delay=delay)
    (one,) = attached(sub, SHARED, permits=1)
    delay.active = False
    assert entries(sub.pump(NOW)) == [0]
    delay.active = True
    assert entries(sub.flow(one, 1, NOW)) == []


def test_failover_serves_the_first_consumer_and_notifies_all() -> None:
    log = Log()
    log.add(2)
    sub = subscription(log)
    one, two, three = consumer(1), consumer(2), consumer(3)
    assert sub.attach(one, FAILOVER, NOW) == [TellActive(one, True)]
    assert sub.attach(two, FAILOVER, NOW) == [TellActive(two, False)]
    one.permits = two.permits = 5
    assert delivered(sub.pump(NOW)) == [(1, 0), (1, 1)]
    sub.acknowledge([0], NOW)
    commands = sub.detach(one, NOW)
    assert commands[0] == TellActive(two, True)
    assert delivered(commands) == [(2, 1)]
    assert sub.attach(three, FAILOVER, NOW) == [TellActive(three, False)]


def test_failover_hands_over_to_higher_priority() -> None:
    log = Log()
    log.add(2)
    sub = subscription(log)
    late, early = consumer(1, priority=1), consumer(2, priority=0)
    sub.attach(late, FAILOVER, NOW)
    sub.flow(late, 5, NOW)
    assert sub.attach(early, FAILOVER, NOW) == [TellActive(late, False), TellActive(early, True)]
    assert delivered(sub.flow(early, 5, NOW)) == [(2, 0), (2, 1)]


def test_failover_spreads_partitions_over_consumers() -> None:
    served = []
    for partition in range(3):
        log = Log()
        log.add(1)
        sub = subscription(log, partition=partition)
        attached(sub, FAILOVER, 3, permits=1)
        served += delivered(sub.pump(NOW))
    assert served == [(1, 0), (2, 0), (3, 0)]


def test_key_shared_keeps_keys_together_and_in_order() -> None:
    log = Log()
    for number in range(60):
        log.add(key=f"k{number % 6}")
    sub = subscription(log)
    attached(sub, KEY_SHARED, 3, permits=60)
    given = delivered(sub.pump(NOW))
    assert [number for _, number in given] == list(range(60))
    owners = [{holder for holder, number in given if number % 6 == key} for key in range(6)]
    assert all(len(owner) == 1 for owner in owners)
    assert len(set().union(*owners)) > 1


def test_key_shared_skips_a_full_consumer() -> None:
    log = Log()
    log.add(4, key="a")  # of the first half of the hash range, so of the first consumer
    log.add(4, key="hello")  # of the second
    sub = subscription(log)
    one, two = attached(sub, KEY_SHARED, 2, permits=1)
    assert delivered(sub.pump(NOW)) == [(one.id, 0), (two.id, 4)]
    assert entries(sub.flow(two, 9, NOW)) == [5, 6, 7]
    assert entries(sub.flow(one, 9, NOW)) == [1, 2, 3]


def test_a_key_moves_only_when_its_entries_are_settled() -> None:
    log = Log()
    for number in range(40):
        log.add(key=f"k{number}")
    sub = subscription(log)
    (one,) = attached(sub, KEY_SHARED, permits=100)
    assert len(sub.pump(NOW)) == 40
    two = consumer(2)
    sub.attach(two, KEY_SHARED, NOW)
    two.permits = 100
    for number in range(40):
        log.add(key=f"k{number}")
    held = entries(sub.pump(NOW))
    assert 0 < len(held) < 40
    moved = sorted(set(range(40, 80)) - set(held))
    number = moved[0]
    assert delivered(sub.acknowledge([number - 40], NOW)) == [(two.id, number)]
    assert delivered(sub.detach(one, NOW))


def test_key_shared_out_of_order_moves_keys_at_once() -> None:
    log = Log()
    for number in range(40):
        log.add(key=f"k{number}")
    keys = pb.KeySharedMeta(allow_out_of_order_delivery=True)
    sub = subscription(log)
    attached(sub, KEY_SHARED, permits=100, keys=keys)
    sub.pump(NOW)
    two = consumer(2)
    sub.attach(two, KEY_SHARED, NOW, keys)
    two.permits = 100
    for number in range(40):
        log.add(key=f"k{number}")
    given = delivered(sub.pump(NOW))
    assert len(given) == 40
    assert {holder for holder, _ in given} == {1, 2}


def test_sticky_ranges() -> None:
    log = Log()
    for number in range(40):
        log.add(key=f"k{number}")
    sub = subscription(log)
    half = SLOTS // 2
    low, high = consumer(1, ranges=[(0, half - 1)]), consumer(2, ranges=[(half, SLOTS - 1)])
    keys = pb.KeySharedMeta(key_shared_mode=1)
    sub.attach(low, KEY_SHARED, NOW, keys)
    low.permits = high.permits = 100
    assert all(log[number].slot < half for number in entries(sub.pump(NOW)))
    given = delivered(sub.attach(high, KEY_SHARED, NOW, keys))
    assert given
    assert all(holder == high.id and log[number].slot >= half for holder, number in given)
    with pytest.raises(RefusedError, match="Range conflict with consumer c1"):
        sub.attach(consumer(3, ranges=[(5, 5)]), KEY_SHARED, NOW, keys)
    with pytest.raises(RefusedError, match="hash ranges within"):
        sub.attach(consumer(3, ranges=[(5, SLOTS)]), KEY_SHARED, NOW, keys)
    with pytest.raises(RefusedError, match="hash ranges within"):
        sub.attach(consumer(3), KEY_SHARED, NOW, keys)


def test_seek_closes_consumers_and_resets_the_cursor() -> None:
    log = Log()
    log.add(3)
    log.add(deliver_at=NOW + 1_000)
    sub = subscription(log)
    one, two = attached(sub, SHARED, 2, permits=5)
    sub.pump(NOW)
    sub.acknowledge([0, 1], NOW)
    assert set(sub.seek(1)) == {Disconnect(one), Disconnect(two)}
    assert list(sub.consumers) == []
    (again,) = attached(sub, SHARED, permits=5)
    assert entries(sub.pump(NOW)) == [1, 2]
    assert sub.unacknowledged(again) == [1, 2]
    assert sub.detach(one, NOW) == []
