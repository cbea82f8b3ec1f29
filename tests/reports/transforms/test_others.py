"""Delay, throttling, counts, bounds, delivery, cost and skew, on small frames."""

from typing import Any

import pytest
from tests.reports import frames, oracle
from tests.reports.frames import at, comes, trial

from sluicegate_reports.model.runs import Family
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.transforms import cost, delivery, lanes, throttle
from sluicegate_reports.transforms.delay import SHARES
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


def test_lateness_of_messages_by_hand() -> None:
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
    delay = lateness(rows)
    assert (delay["messages"], delay["early"]) == (4, 1)
    assert (delay["least_ms"], delay["most_ms"]) == (pytest.approx(-2), pytest.approx(20))
    assert [delay["quantiles"][topic_key] for topic_key in (SHARES.index(0.5), -1)] == [-0.5, 20]


def lateness(rows: list[Row]) -> Row:
    """Of messages that are delayed by 250 ms."""
    (figures,) = frames.of_others([trial("fixed_delivery_delay", 250)], rows)["delays"]
    return figures


def test_the_transit_at_a_moment_by_hand() -> None:
    # Sent at 1 s, here at 1.35 s; what a rate or a delay keeps back tells nothing. Nobody sees anything from
    # 3.0 s to 6.0 s.
    rows = [came(1.35, 0, published=at(1), topic="free")]
    rows += [came(1.3, 0, published=at(0)), came(1.3, 0, published=at(0), topic="limited")]
    rows += [came(n / 10, n, published=None) for n in [*range(31), *range(60, 80)]]
    for slice_us in (0, 1_000_000):
        topics = frames.topics(seen=rows, slice_us=slice_us)
        trials = [trial("fixed_delivery_delay", 250), trial(topic="limited")]
        (transit,) = (row["transit"] for row in frames.transits(topics, trials))
        first = int(at(0).timestamp()) * 10
        assert list(zip((transit.slots - first).tolist(), transit.transit_us.tolist(), strict=True)) == [
            *((slot, 350_000) for slot in range(8, 16)),
            *((slot, 3_000_000) for slot in range(58, 63)),
        ]
        assert transit.soonest_us == 350_000


def test_lateness_beyond_that_of_others_by_hand() -> None:
    # All come 0.4 s late. When the first was sent another took 0.3 s, and when the second came 0.5 s.
    late = [came(n + 0.65, n, published=at(n)) for n in (1, 5, 9)]
    free = [
        came(sent_s + took_s, 0, published=at(sent_s), topic="free")
        for sent_s, took_s in ((0.9, 0.3), (5.2, 0.5), (7.5, 0.9))
    ]
    beyond = lateness(late + free)
    assert [beyond["beyond"][SHARES.index(share)] for share in (0.1, 0.5, 0.999)] == [0, 100, 400]
    assert set(beyond["quantiles"]) == {400}


def test_holds_of_gates_by_hand() -> None:
    held = {"action": "delay", "policy": "max_publish_rate"}
    (topic,) = frames.topics(
        [{"at": 1, "delay": 2_000_000, **held}, {"at": 2, "delay": 5_500_000, **held}, {"at": 3}]
    )
    (figures,) = throttle.holds(topic.topic_key, [throttle.throttled(topic)])
    assert tuple(figures.values()) == ("kafka", "proxy", "orders", "max_publish_rate", 2, 7.5, 5.5)


def test_latency_of_producers_by_hand() -> None:
    rows: list[Row] = [{"at": n, "latency_ns": n * 1_000_000} for n in range(1, 11)]
    rows += [{"at": 1, "event": "refused", "latency_ns": 10**12}]
    (topic,) = frames.topics(seen=rows)
    (figures,) = throttle.latencies(topic.topic_key, [throttle.throttled(topic)], [0.5, 0.9])
    assert (figures["phase"], figures["messages"], figures["longest_ms"]) == ("steady", 10, 10.0)
    assert figures["quantiles"] == [oracle.quantile(range(1, 11), 0.5), oracle.quantile(range(1, 11), 0.9)]


def test_sizes_by_hand() -> None:
    rows: list[Row] = [
        {"at": 1, "bytes": 100},
        {"at": 2, "bytes": 101, "event": "refused"},
        {"at": 3, "bytes": 101},
        {"at": 4, "bytes": 100, "event": "refused"},
        {"at": 5, "bytes": 999, "event": "failed"},
        {"at": 6, "bytes": 100, "event": "refused", "code": "TOO_MANY"},  # by another policy
    ]
    (figures,) = frames.of_others([trial("max_message_size", 100)], rows)["sizes"]
    assert figures == {
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


def test_messages_above_the_limit_that_came_unanswered_were_admitted() -> None:
    rows: list[Row] = [
        {"at": at_s, "bytes": size, "sequence": number, "event": event}
        for at_s, number, event, size in (
            (1, 0, "sent", 101),
            (1, 1, "sent", 150),
            (2, 1, "failed", 150),
            (2, 2, "sent", 102),
            (4, 2, "refused", 102),
            (2, 3, "sent", 100),
            (2, 4, "sent", 103),
        )
    ]
    rows += [came(at_s, number) for at_s, number in ((1.5, 0), (5, 1), (6, 1), (6, 2), (6, 3))]
    rows += [came(6, 4, producer="p2")]
    (figures,) = frames.of_others([trial("max_message_size", 100)], rows)["sizes"]
    assert (figures["above"], figures["failed"], figures["wrongly_admitted"]) == (3, 1, 2)
    assert (figures["refused"], figures["largest_admitted"]) == (1, 150)


def test_what_the_log_says_was_refused_by_hand() -> None:
    by_it = {"policy": "max_message_size", "action": "reject"}
    log: list[Row] = [
        {"at": -0.4, **by_it},
        {"at": 1, **by_it, "messages": 3},
        {"at": 2},
        {"at": 12, **by_it},
    ]
    log += [{"at": 3, **by_it, "policy": "max_publish_rate"}, {"at": 4, **by_it, "action": "delay"}]
    figures = frames.of_others([trial("max_message_size", 100)], [], log)["rejected"]
    assert figures == [{"trial": 0, "log_refused": 4}]
    assert frames.of_others([trial("max_message_size", 100)], [], log[3:4])["rejected"] == []


def test_clients_that_were_served_though_refused_by_hand() -> None:
    rows = [comes(at_s, client, "attach_refused") for at_s, client in ((1, "p1"), (1, "p2"), (5, "p3"))]
    rows += [comes(3, "p2"), comes(1, "p4", "attach_refused", topic="other")]
    rows += [
        {"at": at_s, "client": client} for at_s, client in ((0.5, "p1"), (2, "p2"), (4, "p3"), (4, "p4"))
    ]
    tried = [trial("max_producers_per_topic", 1)]
    assert frames.of_others(tried, rows)["served"] == []
    rows += [{"at": at_s, "client": client} for at_s, client in ((2, "p1"), (4, "p1"), (7, "p3"), (11, "p3"))]
    assert frames.of_others(tried, rows)["served"] == [{"trial": 0, "served": 2}]


def test_requested_delays_by_hand() -> None:
    rows: list[Row] = [{"at": 1}, {"at": 2, "delay_ms": 500}, {"at": 3, "delay_ms": 501, "event": "refused"}]
    (figures,) = frames.of_others([trial("max_delivery_delay", 500)], rows)["asked"]
    assert (figures["above"], figures["wrongly_admitted"], figures["wrongly_refused"]) == (1, 0, 0)


def unacked(rows: list[Row], limit: float = 3) -> Row:
    tried = trial("max_unacked_messages_per_consumer", limit)
    (figures,) = frames.of_others([tried], rows)["unacked"]
    return figures


def test_unacknowledged_messages_by_hand() -> None:
    joined = [comes(0, c, role="consumer", acknowledges=True) for c in ("c1", "c2")]
    rows = [came(n, n) for n in (1, 2, 3)] + [
        came(3.5, 3),  # once more: it is still one message
        came(4, 1, event="acknowledged"),
        came(5, 4),
        came(5, 9, client="c2"),
    ]
    expected = {"trial": 0, "consumers": 2, "received": 5, "acknowledged": 1, "most": 3}
    assert unacked(joined + rows) == {**expected, "left": 0, "untold": 0}


def test_a_consumer_that_acknowledges_all_never_has_many() -> None:
    rows = [came(1 + n / 10, n) for n in range(20)]
    rows += [came(1.15 + n / 10, n, event="acknowledged") for n in range(20)]
    row = unacked(rows)
    assert (row["received"], row["acknowledged"], row["most"], row["untold"]) == (20, 20, 2, 0)


def test_observations_of_version_1_leave_the_limit_unmeasured() -> None:
    rows = [comes(0, "c1", role="consumer"), *(came(n, n) for n in range(1, 6))]
    row = unacked(rows)
    assert (row["most"], row["untold"]) == (5, 1)
    finding = judge(trial("max_unacked_messages_per_consumer", 3), row)
    assert (finding.verdict, finding.figure) == (Verdict.MISSING, None)
    assert "version 1" in finding.text
    rows[0]["acknowledges"] = False
    assert judge(trial("max_unacked_messages_per_consumer", 3), unacked(rows)).verdict is Verdict.OFF


def delivered(rows: list[Row]) -> list[Row]:
    """What became of the messages of one topic, by subscription; it was read until the last row."""
    (topic,) = (each for each in frames.topics(seen=rows) if each.name is not None)
    parts = [part for _, part in delivery.ends(topic)]
    (end_us,) = delivery.read_until(list(delivery.ends_together(topic.arm, parts)), {}).values()
    by_subscription = delivery.delivery(topic.topic_key, [delivery.seen(topic)], 1.0, end_us, ["danube"])
    return sorted(by_subscription, key=lambda row: str(row["subscription"]))


def test_delivery_by_hand() -> None:
    answers: list[Row] = [{"at": n, "sequence": n} for n in range(5)]
    answers += [{"at": 5, "sequence": 5, "event": "refused"}, {"at": 6, "sequence": 6, "event": "failed"}]
    # Subscription s: 0, 2, 1 (late), 1 again, 3, 5 (was refused). t: 0 to 4, by two consumers in turn.
    rows = [came(10 + topic_key, n) for topic_key, n in enumerate([0, 2, 1, 1, 3, 5])]
    order = [(0, "c1"), (2, "c1"), (1, "c2"), (3, "c2"), (4, "c1")]
    rows += [came(20 + topic_key, n, subscription="t", client=c) for topic_key, (n, c) in enumerate(order)]
    figures = delivered(answers + rows)
    names = ("subscription", "acknowledged", "received", "lost", "duplicates", "reordered", "told_refused")
    assert [tuple(row[name] for name in names) for row in figures] == [
        ("s", 5, 5, 1, 1, 1, 1),
        ("t", 5, 5, 0, 0, 0, 0),
    ]


@pytest.mark.parametrize(("system", "reordered"), [("danube", 1), ("kafka", 2)])
def test_overlapping_calls_have_no_order(system: str, reordered: int) -> None:
    """1 was sent before 0 was answered, 3 after 2 was."""
    sent = {0: 0, 1: 1, 2: 20, 3: 40}
    rows: list[Row] = [{"at": sent[n] + 10, "sequence": n, "system": system} for n in sent]
    rows += [
        came(50 + topic_key, n, system=system, published=at(sent[n]))
        for topic_key, n in enumerate([1, 0, 3, 2])
    ]
    (own,) = delivered(rows)
    assert (own["received"], own["reordered"]) == (4, reordered)


def test_a_subscription_that_received_nothing_lost_everything() -> None:
    rows: list[Row] = [{"at": n, "sequence": n} for n in range(3)]
    rows += [
        {"at": 0, "role": "consumer", "event": event, "subscription": name, "client": name, "sequence": None}
        for name, event in (("in", "attached"), ("out", "attach_refused"))
    ]
    figures = delivered(rows)
    names = ("subscription", "acknowledged", "received", "lost", "unread")
    assert [tuple(row[name] for name in names) for row in figures] == [
        ("in", 3, 0, 2, 1)  # the last had no time to come
    ]


def test_cost_percentiles_match_the_oracle_to_a_thousandth() -> None:
    costs = [n * n + 1 for n in range(1000)]
    rows: list[Row] = [{"at": 1, "decision_cost": each} for each in costs] + [{"at": 2}]
    (topic,) = frames.topics(rows)
    (figures,) = cost.costs_together(topic.arm, [part for _, part in cost.costs(topic)])
    assert figures["timed"] == 1000
    for share in cost.SHARES:
        exact = oracle.quantile(costs, share)
        assert exact <= figures[cost.name(share)] <= exact * 1.001


def test_trials_are_selected_by_family() -> None:
    trials = [
        trial(),
        trial("max_message_size", 9),
        trial("max_message_size", 9, not_applicable="no sizes there"),
    ]
    selected = [(each.trial, each.policy, each.limit) for each in lanes.tries(trials, Family.SIZE)]
    assert selected == [(1, "max_message_size", 9.0)]
