"""The use of limits, measured on the engine as a worker measures it."""

import pytest
from tests.runtime.sampled import EXEMPT, SECOND, Sampled

from sluicegate.engine.state import TopicState
from sluicegate.features.adaptive.settings import POLICY
from sluicegate.model import Operation, OperationKind, TopicName
from sluicegate.runtime import use
from sluicegate.runtime.recent import Recent


@pytest.mark.seed("S1-115")
def test_800_of_1000_a_second_are_80_percent() -> None:
    broker = Sampled({"max_publish_rate": 1000})
    broker.tick(11, lambda: broker.publish(800))
    assert broker.utilization() == {"publish": {"1s": 80, "10s": 80}}
    assert broker.topic_use()["max_publish_rate"] == {
        "limit": 1000,
        "in_force": 1000,
        "level": "broker",
        "source": "file",
        "used_1s": 800,
        "used_10s": 800,
    }
    broker.tick()
    assert broker.utilization() == {"publish": {"1s": 0, "10s": 72}}
    broker.tick(10)
    assert broker.utilization() == {"publish": {"1s": 0, "10s": 0}}


def test_of_messages_and_bytes_the_one_that_is_used_most_counts() -> None:
    broker = Sampled({"max_publish_rate": 1000, "max_publish_rate_bytes": 2000})
    broker.tick(2, lambda: broker.publish(150))
    assert broker.utilization()["publish"]["1s"] == 75
    assert broker.topic_use()["max_publish_rate_bytes"]["used_1s"] == 1500


def test_what_was_refused_or_is_exempt_uses_nothing() -> None:
    broker = Sampled({"max_publish_rate": 100, "max_dispatch_rate": 50})

    def publish() -> None:
        assert broker.publish(100)
        assert not broker.publish(50)
        assert broker.publish(500, principal=EXEMPT)
        assert broker.publish(300, principal=EXEMPT, kind=OperationKind.DISPATCH)
        assert broker.publish(30, kind=OperationKind.DISPATCH)

    broker.tick(3, publish)
    assert broker.utilization() == {
        "publish": {"1s": 100, "10s": 100},
        "dispatch": {"1s": 60, "10s": 60},
    }


def test_a_changed_limit_and_a_factor_change_what_is_in_force() -> None:
    broker = Sampled({"max_publish_rate": 1000})
    broker.tick(2, lambda: broker.publish(400))
    broker.set({"max_publish_rate": 1000}, {"max_publish_rate": 2000})
    broker.tick(1, lambda: broker.publish(400))
    limit = broker.topic_use()["max_publish_rate"]
    assert (limit["limit"], limit["level"], limit["source"]) == (2000, "topic", "store")
    assert broker.utilization()["publish"]["1s"] == 20
    broker.disk.factor.set(0.25, "full")
    broker.tick(1, lambda: broker.publish(400))
    assert (broker.topic_use()["max_publish_rate"]["limit"], broker.utilization()["publish"]["1s"]) == (
        2000,
        80,
    )
    assert broker.topic_use()["max_publish_rate"]["in_force"] == 500
    broker.disk.factor.set(0.0, "full")
    broker.tick()
    assert broker.utilization()["publish"]["1s"] == 100


def test_an_observed_limit_is_used_too_and_factors_do_not_reduce_it() -> None:
    broker = Sampled({"max_publish_rate": 1000})
    broker.set({"max_publish_rate": 1000}, observe_only=True)
    broker.disk.factor.set(0.5, "full")
    broker.tick(2, lambda: broker.publish(300))
    assert broker.utilization()["publish"] == {"1s": 30, "10s": 30}
    broker.tick(1, lambda: broker.publish(3000))
    assert broker.utilization()["publish"]["1s"] == 300


def test_adaptive_throttling_reduces_what_is_in_force() -> None:
    assert use._ADAPTIVE == POLICY
    broker = Sampled({"max_publish_rate": 1000})
    broker.tick(1, lambda: broker.publish(1))
    state = broker.host.gates.states["t"]
    bucket = state.limiter(POLICY, 200, 0, 1.0, broker.now_ns).bucket
    broker.tick()
    assert broker.topic_use()["max_publish_rate"]["in_force"] == 200
    bucket.reconfigure(0, 0, 1.0, broker.now_ns)
    broker.tick()
    assert broker.topic_use()["max_publish_rate"]["in_force"] == 1000


def test_of_subscriptions_the_one_that_uses_most_counts() -> None:
    broker = Sampled({"max_subscription_dispatch_rate": 100, "max_dispatch_rate": 1000})

    def dispatch() -> None:
        for subscription, messages in (("a", 10), ("b", 60), ("c", 20)):
            broker.publish(messages, kind=OperationKind.DISPATCH, subscription=subscription)

    broker.tick(3, dispatch)
    assert broker.utilization() == {
        "dispatch": {"1s": 9, "10s": 9},
        "subscription": {"1s": 60, "10s": 60},
    }


def test_of_many_subscriptions_a_bounded_number_is_read() -> None:
    broker = Sampled({"max_subscription_dispatch_rate": 100})
    for number in range(3 * use.SUBSCRIPTIONS):
        broker.publish(1, kind=OperationKind.DISPATCH, subscription=f"s{number}")
    broker.tick()
    assert len(broker.samples._use["t"]._of_subscriptions) == use.SUBSCRIPTIONS


def test_a_topic_that_was_evicted_and_comes_again_begins_anew() -> None:
    broker = Sampled({"max_publish_rate": 1000})
    broker.tick(3, lambda: broker.publish(800))
    broker.host.gates.states["t"] = TopicState(TopicName("t", "ns"), broker.now_ns)
    broker.host.gates.live.clear()
    broker.tick(1, lambda: broker.publish(10))
    assert broker.utilization()["publish"]["1s"] == 0
    broker.tick(1, lambda: broker.publish(10))
    assert broker.utilization()["publish"]["1s"] == 1


def test_only_topics_with_a_name_keep_readings() -> None:
    broker = Sampled({"max_publish_rate": 1000}, named=1)
    broker.tick(1, lambda: (broker.publish(1, "a"), broker.publish(1, "b")))
    assert list(broker.samples._use) == ["a"]
    broker.publish(100, "b")
    for _ in range(30):
        broker.publish(10, "b")
    broker.tick(60)
    assert list(broker.samples._use) == ["b"]


def test_counts_sizes_and_delays_are_limits_in_base_units() -> None:
    broker = Sampled(
        {
            "max_producers_per_topic": 5,
            "max_subscriptions_per_topic": 6,
            "max_consumers_per_topic": 7,
            "max_consumers_per_subscription": 8,
            "max_unacked_messages_per_consumer": 9,
            "max_message_size": 1024,
            "max_delivery_delay": 1500,
            "max_dispatch_rate": 0,
            "burst_seconds": 2,
            "connection_rate_limit": 10,
        }
    )
    broker.decide(Operation(OperationKind.ATTACH_PRODUCER, "t", producer="p1"))
    for consumer in "abc":
        subscription = "s2" if consumer == "c" else "s1"
        kind = OperationKind.ATTACH_CONSUMER
        broker.decide(Operation(kind, "t", subscription=subscription, consumer=consumer))
    broker.publish(4, kind=OperationKind.DISPATCH, subscription="s1", consumer="a")
    broker.tick()
    found = {name: (limit["limit"], limit.get("used_1s")) for name, limit in broker.topic_use().items()}
    assert found == {
        "max_producers_per_topic": (5, 1),
        "max_subscriptions_per_topic": (6, 2),
        "max_consumers_per_topic": (7, 3),
        "max_consumers_per_subscription": (8, 2),
        "max_unacked_messages_per_consumer": (9, 4),
        "max_message_size": (1024, None),
        "max_delivery_delay": (1.5, None),
    }


def test_limits_that_topics_share_are_the_broker_s() -> None:
    broker = Sampled({"publish_quota": 1000, "connection_rate_limit": 10, "max_publish_rate": 5000})
    broker.tick(
        3, lambda: (broker.publish(300), broker.publish(100, "u"), broker.publish(9, principal=EXEMPT))
    )
    latest = broker.use.latest
    assert {policy: limit["limit"] for policy, limit in latest.items()} == {
        "max_message_size": 10 * 2**20,
        "publish_quota": 1000,
        "connection_rate_limit": 10,
        "max_publish_rate": 5000,
    }
    assert (latest["max_message_size"]["level"], latest["max_message_size"]["source"]) == ("default",) * 2
    assert (latest["publish_quota"]["used_1s"], latest["publish_quota"]["used_10s"]) == (400, 400)
    assert "used_1s" not in latest["max_publish_rate"]


def test_readings_at_uneven_times_are_averages_over_the_time_that_passed() -> None:
    recent = Recent()
    assert recent.rates(1) == (0, 0)
    for now_ns, messages in ((0, 100), (SECOND, 200), (3 * SECOND, 600), (3 * SECOND, 600)):
        recent.read(now_ns, messages, 10 * messages)
        if now_ns == SECOND:
            assert recent.rates(1) == (100, 1000)
    assert recent.rates(1) == (0, 0)
    assert recent.rates(2) == (200, 2000)
    assert recent.rates(10) == pytest.approx((500 / 3, 5000 / 3))
