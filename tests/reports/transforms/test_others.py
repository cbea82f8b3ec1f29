"""Delay, throttling, counts, bounds, delivery, cost and skew, on frames that one can check by hand."""

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.reports import frames
from tests.reports.frames import at, one, rows_of, trial

from sluicegate_reports import ideal
from sluicegate_reports.runs import Family, Trial
from sluicegate_reports.transforms import bounds, cost, counts, delay, delivery, lanes, skew, throttle

Row = dict[str, Any]


def came(at_s: float, sequence: int, **changes: Any) -> Row:
    base: Row = {
        "event": "received",
        "role": "consumer",
        "client": "c1",
        "producer": "p1",
        "subscription": "s",
    }
    return {**base, "at": at_s, "sequence": sequence, **changes}


def comes(at_s: float, client: str, event: str = "attached", **changes: Any) -> Row:
    return {"at": at_s, "client": client, "event": event, **changes}


def tries(spark: SparkSession, *trials: Trial) -> Any:
    return lanes.tries(spark, trials, trials[0].measured.family)


def test_how_late_messages_come(spark: SparkSession) -> None:
    published = [at(number) for number in range(4)]
    late_s = [
        0.0,
        0.02,
        -0.0005,
        -0.002,
    ]  # the third is within what a stamp in ms can tell, the fourth is early
    rows = [
        came(number + 0.25 + late, number, published=time)
        for number, (late, time) in enumerate(zip(late_s, published, strict=True))
    ]
    rows += [came(9, 9, published=None), came(9, 9, published=at(0), topic="other")]
    found = one(
        delay.errors(
            frames.observed(spark, rows), tries(spark, trial("fixed_delivery_delay", 250)), [0.5, 1.0]
        )
    )
    assert (found["messages"], found["early"]) == (4, 1)
    assert (found["least_ms"], found["most_ms"]) == (pytest.approx(-2), pytest.approx(20))
    assert found["quantiles"] == [pytest.approx(-0.5), pytest.approx(20)]


def test_what_gates_held(spark: SparkSession) -> None:
    held = {"action": "delay", "policy": "max_publish_rate"}
    log = frames.decisions(
        spark, [{"at": 1, "delay": 2_000_000, **held}, {"at": 2, "delay": 5_500_000, **held}, {"at": 3}]
    )
    assert rows_of(throttle.holds(log)) == [("kafka", "proxy", "orders", "max_publish_rate", 2, 7.5, 5.5)]


def test_how_long_producers_wait(spark: SparkSession) -> None:
    rows: list[Row] = [{"at": n, "latency_ns": n * 1_000_000} for n in range(1, 11)]
    rows += [{"at": 1, "event": "refused", "latency_ns": 10**12}]
    found = one(throttle.latencies(frames.observed(spark, rows), [0.5, 0.9]))
    assert (found["phase"], found["messages"], found["longest_ms"]) == ("steady", 10, 10.0)
    assert found["quantiles"] == [ideal.quantile(range(1, 11), 0.5), ideal.quantile(range(1, 11), 0.9)]


def test_producers_by_hand(spark: SparkSession) -> None:
    rows = [
        comes(-1, "p1"),  # before the trial: it counts, and is not judged
        comes(1, "p2"),
        comes(2, "p3", "attach_refused"),
        comes(3, "p1", "detached"),
        comes(4, "p3", "attach_refused"),  # wrong: there is room
        comes(5, "p3"),
        comes(6, "p4"),  # wrong: there is none
        comes(7, "c1", role="consumer"),
        comes(8, "p5", topic="other"),
        comes(11, "p5"),
    ]
    found = one(
        counts.attachments(frames.observed(spark, rows), tries(spark, trial("max_producers_per_topic", 2)))
    )
    assert found == {
        "trial": 0,
        "attempts": 5,
        "attached": 3,
        "refused": 2,
        "most": 3,
        "wrongly_admitted": 1,
        "wrongly_refused": 1,
    }


def test_subscriptions_and_consumers_by_hand(spark: SparkSession) -> None:
    def consumer(at_s: float, client: str, subscription: str, event: str = "attached") -> Row:
        return comes(at_s, client, event, role="consumer", subscription=subscription)

    rows = [
        consumer(1, "c1", "s1"),
        consumer(2, "c2", "s1"),
        consumer(3, "c3", "s1", "attach_refused"),
        consumer(4, "c4", "s2"),
        consumer(5, "c4", "s2", "detached"),
        consumer(6, "c5", "s3", "attach_refused"),
    ]
    trials = [
        trial(
            "max_subscriptions_per_topic", 2
        ),  # s1 and s2 stay; s3 is refused, rightly; c3 is no matter of it
        trial("max_consumers_per_topic", 3),  # c3 is refused though there are two; c5 too
        trial("max_consumers_per_subscription", 2, subscription="s1"),
        trial("max_consumers_per_subscription", 1),  # each: c2 is one too many, s3 might have had one
    ]
    found = counts.attachments(frames.observed(spark, rows), tries(spark, *trials))
    names = ("trial", "attempts", "attached", "most", "wrongly_admitted", "wrongly_refused")
    assert rows_of(found, *names) == [
        (0, 3, 2, 2, 0, 0),
        (1, 5, 3, 3, 0, 2),
        (2, 3, 2, 2, 0, 0),
        (3, 5, 3, 2, 1, 1),
    ]


def test_sizes_by_hand(spark: SparkSession) -> None:
    rows: list[Row] = [
        {"at": 1, "bytes": 100},
        {"at": 2, "bytes": 101, "event": "refused"},
        {"at": 3, "bytes": 101},
        {"at": 4, "bytes": 100, "event": "refused"},
        {"at": 5, "bytes": 999, "event": "failed"},
        {"at": 6, "bytes": 100, "event": "refused", "code": "TOO_MANY"},  # by another policy
    ]
    found = one(
        bounds.messages(frames.observed(spark, rows), tries(spark, trial("max_message_size", 100)), "bytes")
    )
    assert found == {
        "trial": 0,
        "above": 2,
        "up_to": 3,
        "refused": 3,
        "wrongly_admitted": 1,
        "wrongly_refused": 1,
        "largest_admitted": 101,
    }


def test_delays_asked_for_by_hand(spark: SparkSession) -> None:
    rows: list[Row] = [{"at": 1}, {"at": 2, "delay_ms": 500}, {"at": 3, "delay_ms": 501, "event": "refused"}]
    seen = frames.observed(spark, rows)
    found = one(bounds.messages(seen, tries(spark, trial("max_delivery_delay", 500)), "delay_ms"))
    assert (found["above"], found["wrongly_admitted"], found["wrongly_refused"]) == (1, 0, 0)


def test_unacknowledged_messages_by_hand(spark: SparkSession) -> None:
    rows = [came(n, n) for n in (1, 2, 3)] + [
        came(4, 1, event="acknowledged"),
        came(5, 4),
        came(5, 9, client="c2"),
    ]
    found = one(
        bounds.unacked(
            frames.observed(spark, rows), tries(spark, trial("max_unacked_messages_per_consumer", 3))
        )
    )
    assert found == {"trial": 0, "consumers": 2, "received": 5, "most": 3}


def test_delivery_by_hand(spark: SparkSession) -> None:
    answers: list[Row] = [{"at": n, "sequence": n} for n in range(5)]
    answers += [{"at": 5, "sequence": 5, "event": "refused"}, {"at": 6, "sequence": 6, "event": "failed"}]
    # Subscription s: 0, 2, 1 (late), 1 again, 3, 5 (was refused). t: 0 to 4, by two consumers in turn.
    rows = [came(10 + place, n) for place, n in enumerate([0, 2, 1, 1, 3, 5])]
    order = [(0, "c1"), (2, "c1"), (1, "c2"), (3, "c2"), (4, "c1")]
    rows += [came(20 + place, n, subscription="t", client=c) for place, (n, c) in enumerate(order)]
    found = delivery.delivery(frames.observed(spark, answers + rows))
    names = ("subscription", "acknowledged", "received", "lost", "duplicates", "reordered", "told_refused")
    assert rows_of(found, *names) == [("s", 5, 5, 1, 1, 1, 1), ("t", 5, 5, 0, 0, 0, 0)]


def test_cost_percentiles_are_the_oracles_to_a_thousandth(spark: SparkSession) -> None:
    costs = [n * n + 1 for n in range(1000)]
    rows: list[Row] = [{"at": 1, "decision_cost": each} for each in costs] + [{"at": 2}]
    found = one(cost.percentiles(frames.decisions(spark, rows)))
    assert found["timed"] == 1000
    for share in cost.SHARES:
        exact = ideal.quantile(costs, share)
        assert exact <= found[cost.name(share)] <= exact * 1.001


def test_skew_is_bounded_by_what_was_before_and_after(spark: SparkSession) -> None:
    # The gate's clock is an hour ahead. Each message is sent, decided 2 ms later and told 5 ms after that.
    hour = 3600.0
    log: list[Row] = [{"at": hour + n + 0.002} for n in range(3)] + [{"at": hour + 9, "action": "reject"}]
    seen: list[Row] = []
    for n in range(3):
        seen.append({"at": n, "event": "sent", "sequence": n})
        seen.append({"at": n + 0.007, "sequence": n})
    seen.append({"at": 2.5, "event": "sent", "sequence": 3})
    seen.append({"at": 2.6, "event": "refused", "sequence": 3})
    found = one(skew.skew(frames.decisions(spark, log), frames.observed(spark, seen)))
    expected = int(timedelta(hours=1).total_seconds() * 1e6)
    assert found["pairs"] == 3
    assert (found["at_least_us"], found["at_most_us"]) == (expected - 5_000, expected + 2_000)


def test_skew_of_batches_and_windows(spark: SparkSession) -> None:
    # One window of 100 ms holds both messages: it may have been decided up to its end.
    log: list[Row] = [{"at": 0.05, "messages": 2, "window": 100, "client": None}]
    seen: list[Row] = [
        {"at": 0.06, "event": "sent", "sequence": 0},
        {"at": 0.07, "event": "sent", "sequence": 1},
        {"at": 0.08, "sequence": 0},
        {"at": 0.09, "sequence": 1},
    ]
    found = one(skew.skew(frames.decisions(spark, log), frames.observed(spark, seen)))
    assert (found["at_least_us"], found["at_most_us"]) == (-30_000, 80_000)


def test_tries_are_of_one_family(spark: SparkSession) -> None:
    trials = [
        trial(),
        trial("max_message_size", 9),
        trial("max_message_size", 9, not_applicable="no sizes there"),
    ]
    assert rows_of(lanes.tries(spark, trials, Family.SIZE), "trial", "policy", "limit") == [
        (1, "max_message_size", 9.0)
    ]
