"""Delay, throttling, counts, bounds, delivery, cost and skew, on small frames."""

from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.reports import frames, oracle
from tests.reports.frames import at, comes, one, rows_of, trial, tries

from sluicegate_reports.model.runs import Family
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.transforms import bounds, cost, delay, delivery, lanes, throttle, transit
from sluicegate_reports.verdicts import judge

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


def test_lateness_of_messages_by_hand(spark: SparkSession) -> None:
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
    seen = frames.observed(spark, rows)
    moments = transit.transit(seen, transit.keeping(spark, [trial("fixed_delivery_delay", 250)]))
    found = one(delay.errors(seen, tries(spark, trial("fixed_delivery_delay", 250)), moments, [0.5, 1.0]))
    assert (found["messages"], found["early"]) == (4, 1)
    assert (found["least_ms"], found["most_ms"]) == (pytest.approx(-2), pytest.approx(20))
    assert found["quantiles"] == [pytest.approx(-0.5), pytest.approx(20)]


def test_the_transit_at_a_moment_by_hand(spark: SparkSession) -> None:
    # Sent at 1 s, here at 1.35 s; what a rate or a delay keeps back tells nothing. Nobody sees anything from
    # 3.0 s to 6.0 s.
    rows = [came(1.35, 0, published=at(1), topic="free")]
    rows += [came(1.3, 0, published=at(0)), came(1.3, 0, published=at(0), topic="limited")]
    rows += [came(n / 10, n, published=None) for n in [*range(31), *range(60, 80)]]
    kept = transit.keeping(spark, [trial("fixed_delivery_delay", 250), trial(topic="limited")])
    found = rows_of(transit.transit(frames.observed(spark, rows), kept), "slot", "transit_us")
    first = int(at(0).timestamp()) * 10
    assert [(slot - first, took) for slot, took in found] == [
        *((slot, 350_000) for slot in range(8, 16)),
        *((slot, 3_000_000) for slot in range(58, 63)),
    ]


def test_lateness_beyond_that_of_others_by_hand(spark: SparkSession) -> None:
    # All come 0.4 s late. When the first was sent another took 0.3 s, and when the second came 0.5 s.
    late = [came(n + 0.65, n, published=at(n)) for n in (1, 5, 9)]
    free = [
        came(sent_s + took_s, 0, published=at(sent_s), topic="free")
        for sent_s, took_s in ((0.9, 0.3), (5.2, 0.5), (7.5, 0.9))
    ]
    seen, delayed = frames.observed(spark, late + free), trial("fixed_delivery_delay", 250)
    moments = transit.transit(seen, transit.keeping(spark, [delayed]))
    found = one(delay.errors(seen, tries(spark, delayed), moments, [0.1, 0.5, 1.0]))
    assert found["beyond"] == [pytest.approx(0), pytest.approx(100), pytest.approx(400)]
    assert found["quantiles"] == [pytest.approx(400)] * 3


def test_holds_of_gates_by_hand() -> None:
    held = {"action": "delay", "policy": "max_publish_rate"}
    (topic,) = frames.topics(
        [{"at": 1, "delay": 2_000_000, **held}, {"at": 2, "delay": 5_500_000, **held}, {"at": 3}]
    )
    (found,) = throttle.holds(topic.place, [throttle.throttled(topic)])
    assert tuple(found.values()) == ("kafka", "proxy", "orders", "max_publish_rate", 2, 7.5, 5.5)


def test_latency_of_producers_by_hand() -> None:
    rows: list[Row] = [{"at": n, "latency_ns": n * 1_000_000} for n in range(1, 11)]
    rows += [{"at": 1, "event": "refused", "latency_ns": 10**12}]
    (topic,) = frames.topics(seen=rows)
    (found,) = throttle.latencies(topic.place, [throttle.throttled(topic)], [0.5, 0.9])
    assert (found["phase"], found["messages"], found["longest_ms"]) == ("steady", 10, 10.0)
    assert found["quantiles"] == [oracle.quantile(range(1, 11), 0.5), oracle.quantile(range(1, 11), 0.9)]


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
        "failed": 1,
        "up_to": 3,
        "refused": 3,
        "otherwise": 1,
        "wrongly_admitted": 1,
        "wrongly_refused": 1,
        "largest_admitted": 101,
    }


def test_requested_delays_by_hand(spark: SparkSession) -> None:
    rows: list[Row] = [{"at": 1}, {"at": 2, "delay_ms": 500}, {"at": 3, "delay_ms": 501, "event": "refused"}]
    seen = frames.observed(spark, rows)
    found = one(bounds.messages(seen, tries(spark, trial("max_delivery_delay", 500)), "delay_ms"))
    assert (found["above"], found["wrongly_admitted"], found["wrongly_refused"]) == (1, 0, 0)


def unacked(spark: SparkSession, rows: list[Row], limit: float = 3) -> Row:
    tried = tries(spark, trial("max_unacked_messages_per_consumer", limit))
    return one(bounds.unacked(frames.observed(spark, rows), tried))


def test_unacknowledged_messages_by_hand(spark: SparkSession) -> None:
    joined = [comes(0, c, role="consumer", acknowledges=True) for c in ("c1", "c2")]
    rows = [came(n, n) for n in (1, 2, 3)] + [
        came(3.5, 3),  # once more: it is still one message
        came(4, 1, event="acknowledged"),
        came(5, 4),
        came(5, 9, client="c2"),
    ]
    expected = {"trial": 0, "consumers": 2, "received": 5, "acknowledged": 1, "most": 3}
    assert unacked(spark, joined + rows) == {**expected, "left": 0, "untold": 0}


def test_a_consumer_that_acknowledges_all_never_has_many(spark: SparkSession) -> None:
    rows = [came(1 + n / 10, n) for n in range(20)]
    rows += [came(1.15 + n / 10, n, event="acknowledged") for n in range(20)]
    found = unacked(spark, rows)
    assert (found["received"], found["acknowledged"], found["most"], found["untold"]) == (20, 20, 2, 0)


def test_observations_of_version_1_leave_the_limit_unmeasured(spark: SparkSession) -> None:
    rows = [comes(0, "c1", role="consumer"), *(came(n, n) for n in range(1, 6))]
    found = unacked(spark, rows)
    assert (found["most"], found["untold"]) == (5, 1)
    finding = judge(trial("max_unacked_messages_per_consumer", 3), found)
    assert (finding.verdict, finding.figure) == (Verdict.MISSING, None)
    assert "version 1" in finding.text
    rows[0]["acknowledges"] = False
    assert judge(trial("max_unacked_messages_per_consumer", 3), unacked(spark, rows)).verdict is Verdict.OFF


def delivered(rows: list[Row]) -> list[Row]:
    """What became of the messages of one topic, by subscription; it was read until the last row."""
    (topic,) = (each for each in frames.topics(seen=rows) if each.name is not None)
    parts = [part for _, part in delivery.ends(topic)]
    (end_us,) = delivery.read_until(list(delivery.ends_together(topic.arm, parts)), {}).values()
    found = delivery.delivery(topic.place, [delivery.seen(topic)], 1.0, end_us, ["danube"])
    return sorted(found, key=lambda row: str(row["subscription"]))


def test_delivery_by_hand() -> None:
    answers: list[Row] = [{"at": n, "sequence": n} for n in range(5)]
    answers += [{"at": 5, "sequence": 5, "event": "refused"}, {"at": 6, "sequence": 6, "event": "failed"}]
    # Subscription s: 0, 2, 1 (late), 1 again, 3, 5 (was refused). t: 0 to 4, by two consumers in turn.
    rows = [came(10 + place, n) for place, n in enumerate([0, 2, 1, 1, 3, 5])]
    order = [(0, "c1"), (2, "c1"), (1, "c2"), (3, "c2"), (4, "c1")]
    rows += [came(20 + place, n, subscription="t", client=c) for place, (n, c) in enumerate(order)]
    found = delivered(answers + rows)
    names = ("subscription", "acknowledged", "received", "lost", "duplicates", "reordered", "told_refused")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("s", 5, 5, 1, 1, 1, 1),
        ("t", 5, 5, 0, 0, 0, 0),
    ]


@pytest.mark.parametrize(("system", "reordered"), [("danube", 1), ("kafka", 2)])
def test_overlapping_calls_have_no_order(system: str, reordered: int) -> None:
    """1 was sent before 0 was answered, 3 after 2 was."""
    sent = {0: 0, 1: 1, 2: 20, 3: 40}
    rows: list[Row] = [{"at": sent[n] + 10, "sequence": n, "system": system} for n in sent]
    rows += [
        came(50 + place, n, system=system, published=at(sent[n])) for place, n in enumerate([1, 0, 3, 2])
    ]
    (found,) = delivered(rows)
    assert (found["received"], found["reordered"]) == (4, reordered)


def test_a_subscription_that_received_nothing_lost_everything() -> None:
    rows: list[Row] = [{"at": n, "sequence": n} for n in range(3)]
    rows += [
        {"at": 0, "role": "consumer", "event": event, "subscription": name, "client": name, "sequence": None}
        for name, event in (("in", "attached"), ("out", "attach_refused"))
    ]
    found = delivered(rows)
    names = ("subscription", "acknowledged", "received", "lost", "unread")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("in", 3, 0, 2, 1)  # the last had no time to come
    ]


def test_cost_percentiles_match_the_oracle_to_a_thousandth() -> None:
    costs = [n * n + 1 for n in range(1000)]
    rows: list[Row] = [{"at": 1, "decision_cost": each} for each in costs] + [{"at": 2}]
    (topic,) = frames.topics(rows)
    (found,) = cost.costs_together(topic.arm, [part for _, part in cost.costs(topic)])
    assert found["timed"] == 1000
    for share in cost.SHARES:
        exact = oracle.quantile(costs, share)
        assert exact <= found[cost.name(share)] <= exact * 1.001


def test_trials_are_selected_by_family(spark: SparkSession) -> None:
    trials = [
        trial(),
        trial("max_message_size", 9),
        trial("max_message_size", 9, not_applicable="no sizes there"),
    ]
    assert rows_of(lanes.tries(spark, trials, Family.SIZE), "trial", "policy", "limit") == [
        (1, "max_message_size", 9.0)
    ]
