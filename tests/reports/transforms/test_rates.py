"""Lanes, flows and slots, and the figures of rates, on a few rows."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reports import frames, oracle
from tests.reports.frames import flow, trial

from sluicegate_reports.jobs import rate_figures
from sluicegate_reports.model.runs import Trial
from sluicegate_reports.transforms import (
    engage,
    excess,
    fairness,
    flows,
    lanes,
    moments,
    packed,
    packing,
    refusals,
    slots,
)
from sluicegate_reports.transforms.here import packed_here
from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.parts import Figures, OfTopic
from sluicegate_reports.transforms.requests import Gathered, Requests
from sluicegate_reports.transforms.slots import LATER

SECOND = 1_000_000
_JUDGED = ("admitted", "refused", "wrongly_admitted", "wrongly_refused")


def lane(*trials: Trial) -> Lane:
    (only,) = lanes.lanes(trials or (trial(),))
    return only


def requests(rows: list[frames.Row]) -> dict[tuple[int, str], Requests]:
    """By lane and source."""
    by_source = {}
    for (number, source), own in frames.flows(rows).items():
        gathered = Gathered(source)
        gathered.add(own)
        by_source[number, source] = gathered.requests()
    return by_source


def the_log(rows: list[frames.Row]) -> Requests:
    return requests(rows)[0, "log"]


def flow_rows(topics: Iterable[packed.Topic], tried: list[Lane], *names: str) -> list[tuple[Any, ...]]:
    """Rows of the flows of all lanes: the lane, and these fields."""
    rows = []
    for topic in topics:
        own = [each for each in tried if each.topic_key == (topic.system, topic.door, topic.name)]
        for each, _, _, some in flows.of_topic(topic, own):
            columns = {name: list(getattr(some, name)) for name in ("at_us", "amount", "window_ms")}
            columns["client"] = [[*some.client.names, None][code] for code in some.client.codes]
            columns["action"] = [flows.ACTIONS[code] for code in some.action]
            rows += [(each.number, *row) for row in zip(*(columns[name] for name in names), strict=True)]
    return sorted(rows, key=lambda row: [str(value) for value in row])


def test_only_tried_rates_have_a_lane() -> None:
    tried = lanes.lanes(
        [
            trial("max_message_size", 100),
            trial(limit=10, burst_seconds=2.0),
            trial(missing="no broker"),
            trial("connection_rate_limit", 5, topic=""),
        ],
        {("kafka", "proxy"): [(0, 250_000)]},
    )
    start = 1_795_262_400 * SECOND
    assert [
        (each.number, each.topic, each.operation, each.counts, each.rate, each.burst, each.begin_us)
        for each in tried
    ] == [
        (1, "orders", "publish", "messages", 10.0, 20.0, start),
        (3, None, "attach", "attachments", 5.0, 5.0, start),
    ]
    assert [each.gate_begin_us for each in tried] == [start + 250_000] * 2


def test_decisions_of_a_lane_become_flows() -> None:
    topics = frames.topics(
        [
            {"at": 1, "messages": 3, "window": 100, "client": None},
            {"at": 2, "action": "reject"},
            {"at": 3, "action": "delay"},
            {"at": 4, "action": "rewrite"},
            {"at": 5, "action": "drop"},
            {"at": 6, "action": "would_reject"},
            {"at": 7, "topic": "other"},
            {"at": 7, "door": "interceptor"},
            {"at": 7, "operation": "dispatch"},
            {"at": -1},
            {"at": 10},
            {
                "at": -0.05,
                "window": 100,
                "messages": 7,
                "client": None,
            },  # a window that reaches into the lane
        ],
    )
    assert flow_rows(topics, [lane()], "client", "at_us", "amount", "window_ms", "action") == [
        (0, None, 0, 7, 100, "admitted"),
        (0, None, SECOND, 3, 100, "admitted"),
        (0, "c1", 2 * SECOND, 1, 0, "refused"),
        (0, "c1", 3 * SECOND, 1, 0, "held"),
        (0, "c1", 4 * SECOND, 1, 0, "admitted"),
        (0, "c1", 5 * SECOND, 1, 0, "dropped"),
    ]


def test_amounts_of_each_kind_of_lane() -> None:
    topics = frames.topics(
        [
            {"at": 1, "messages": 3, "bytes": 900},
            {"at": 2, "operation": "dispatch", "subscription": "s1", "messages": 2, "bytes": 200},
            {"at": 2, "operation": "dispatch", "subscription": "s2", "messages": 5, "bytes": 500},
            {"at": 3, "operation": "attach_consumer", "topic": "other", "messages": 0},
        ],
    )
    tried = lanes.lanes(
        [
            trial("max_publish_rate_bytes", 1000),
            trial("max_subscription_dispatch_rate", 10, subscription="s1"),
            trial("max_dispatch_rate", 10),
            trial("connection_rate_limit", 5, topic=""),
        ]
    )
    assert flow_rows(topics, tried, "amount") == [(0, 900), (1, 2), (2, 2), (2, 5), (3, 1)]


def test_observations_become_flows() -> None:
    topics = frames.topics(
        seen=[
            {"at": 1, "event": "sent"},
            {"at": 2},
            {"at": 3, "event": "refused"},
            {"at": 4, "event": "failed"},
            {"at": 5, "event": "received", "role": "consumer", "client": "c1", "subscription": "s1"},
            {"at": 6, "event": "acknowledged", "role": "consumer", "client": "c1", "subscription": "s1"},
            {"at": 7, "event": "attached"},
        ],
    )
    both = lanes.lanes([trial(), trial("max_dispatch_rate"), trial("connection_rate_limit", 5, topic="")])
    assert flow_rows(topics, both, "client", "at_us", "action") == [
        (0, "p1", SECOND, "offered"),
        (0, "p1", 2 * SECOND, "admitted"),
        (0, "p1", 3 * SECOND, "refused"),
        (0, "p1", 4 * SECOND, "failed"),
        (1, "c1", 5 * SECOND, "admitted"),
        (2, "p1", 7 * SECOND, "admitted"),
    ]


def test_slots_sum_up() -> None:
    by_lane = frames.slots(
        [
            flow(0.01, 2),
            flow(0.05, 3),
            flow(0.09, 1, "refused"),
            flow(0.10, 4, "held"),
            flow(0.02, 5, source="clients"),
            flow(0.03, 6, "offered", source="clients"),
        ],
    )
    names = ("rows", "admitted", "offered", "limited", "first_limited_us", "last_limited_us", "largest")
    sums = {
        source: [tuple(int(getattr(each, name)[slot]) for name in names) for slot in (0, 1)]
        for (_, source), each in by_lane.items()
    }
    none, never = packed.NEVER, (0, 0, 0, 0, LATER, packed.NEVER, -1)
    assert sums["clients"] == [(2, 5, 6, 0, LATER, none, 5), never]
    assert sums["log"] == [(3, 5, 6, 1, 90_000, 90_000, 3), (1, 0, 0, 1, 100_000, 100_000, -1)]


def test_each_second() -> None:
    sums = frames.slots([flow(0.95), flow(0.99, client="c2"), flow(1.0), flow(1.5, 1, "refused")])
    assert [tuple(row.values()) for row in slots.per_second(sums[0, "log"])] == [
        (0, 2, 2, 0, 0),
        (1, 1, 2, 1, 0),
    ]


def law(asked: Requests, tried: Lane | None = None) -> dict[str, Any]:
    """The excess of a log."""
    over = excess.excess([moments.of_log(asked)], tried or lane())
    assert over
    return over


@pytest.mark.parametrize(
    ("admitted", "worst_by"),
    [
        ([(0.1, 10)], 0),
        ([(0.1, 10), (0.1, 1)], 1),
        ([(0.1, 10), (1.1, 10)], 0),
        ([(0.9, 10), (1.0, 2)], 1),  # in two seconds
        ([(0.1, 1), (5.9, 10), (7.9, 30), (8.1, 5)], 23),  # the last two: 35 in 0.2 s, of 2 + 10
    ],
)
def test_excess_by_hand(admitted: list[tuple[float, int]], worst_by: float) -> None:
    over = law(the_log([flow(*each) for each in admitted]))
    assert over["excess"] == worst_by - max(0, over["largest"] - 10)
    assert over["admitted"] == sum(amount for _, amount in admitted)


def test_the_window_of_an_excess_and_its_share_are_told() -> None:
    # 35 in 0.2 s from 7.9 s on: the largest, 30, passes a full bucket; 32 might have.
    over = law(the_log([flow(0.1), flow(5.9, 10), flow(7.9, 30), flow(8.1, 5)]))
    assert (over["excess"], over["excess_at_s"], over["excess_window_s"]) == (3, 7.9, pytest.approx(0.2))
    assert over["excess_share"] == pytest.approx(35 / 32 - 1)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 5 * SECOND), st.integers(1, 40)), min_size=1, max_size=30))
def test_the_share_is_that_of_the_worst_of_all_windows(asked: list[tuple[int, int]]) -> None:
    asked = sorted(asked)
    over = law(the_log([flow(at_us / SECOND, amount) for at_us, amount in asked]))
    full = max(10, *(amount for _, amount in asked))
    worst = max(
        sum(amount for _, amount in asked[first : last + 1])
        / (full + 10 * (asked[last][0] - asked[first][0]) / SECOND)
        for first in range(len(asked))
        for last in range(first, len(asked))
    )
    assert max(over["excess_share"], 0) == pytest.approx(max(worst - 1, 0), abs=1e-6)


def test_the_excess_of_lanes_and_sources_apart() -> None:
    rows = [flow(1, 1) for _ in range(11)] + [flow(1, 1, source="clients") for _ in range(13)]
    rows += [*(flow(1, 1, lane=1) for _ in range(17)), flow(1, 99, "refused")]
    excesses = {key: law(own)["excess"] for key, own in requests(rows).items()}
    assert excesses == {(0, "clients"): 3.0, (0, "log"): 1.0, (1, "log"): 7.0}


@settings(max_examples=40)
@given(
    asked=st.lists(st.tuples(st.integers(0, 5 * SECOND), st.integers(1, 40)), min_size=1, max_size=40),
    limit=st.integers(7, 14),
    burst_s=st.sampled_from([0.5, 1.0, 2.5, 4.0]),
)
def test_the_excess_matches_the_oracle(asked: list[tuple[int, int]], limit: int, burst_s: float) -> None:
    tried = trial(limit=limit, burst_seconds=burst_s)
    rows = [flow(at_us / SECOND, amount) for at_us, amount in asked]
    over = law(the_log(rows), lane(tried))
    full = max(tried.burst, *(amount for _, amount in asked))
    assert over["excess"] == float(oracle.overshoot(sorted(asked), tried.limit, full))


def test_judged_refusals_match_the_oracle() -> None:
    asked = [(0.0, 10, "admitted"), (0.0, 1, "admitted"), (0.05, 1, "refused"), (1.0, 5, "refused")]
    rows = [flow(*each) for each in asked]
    rows += [flow(3.0, 1, "held"), flow(4.0, 1, "refused", lane=1), flow(5.0, 1, lane=1, window_ms=100)]
    by_source = requests(rows)
    # The second is one too many; the bucket then holds 10 at 1 s, so 5 might have passed. A perfect gate
    # refuses the second, and the third for its half token; at 1 s it holds 10.
    assert refusals.refusals(by_source[0, "log"], lane(), 10 * SECOND) == {
        "admitted": 2,
        "refused": 2,
        "wrongly_admitted": 1,
        "wrongly_refused": 1,
        "ideal_refused": 2,
    }
    assert refusals.refusals(by_source[1, "log"], lane(), 10 * SECOND) is None


@pytest.mark.parametrize(
    ("action", "after_us", "wrong"),
    [("admitted", 8, 0), ("admitted", 7, 3), ("refused", 11, 0), ("refused", 13, 3)],
)
def test_a_decision_two_microseconds_from_its_token_is_right(action: str, after_us: int, wrong: int) -> None:
    """Ten times a token follows an empty bucket after 10 us: 3 us off each time add up to 3 tokens."""
    rows = [flow(n / 1e4, 2) for n in range(10)]
    rows += [flow(n / 1e4 + after_us / 1e6, 1, action) for n in range(10)]
    judged = refusals.refusals(the_log(rows), lane(trial(limit=100_000, burst_seconds=2e-5)), SECOND)
    assert judged is not None
    assert judged[f"wrongly_{action}"] == wrong


def test_refusals_beyond_the_bound_are_not_judged() -> None:
    rows = [flow(0.0, 10), flow(2.0, 1, "refused"), flow(3.0)]
    judged = refusals.refusals(the_log(rows), lane(), SECOND)
    assert judged
    assert (judged["admitted"], judged["refused"]) == (1, 0)


def test_jain_counts_clients_that_got_nothing() -> None:
    rows = [flow(0.1, 9), flow(0.2, 9, "refused", client="c2"), flow(0.3, 9, "refused", client="c3")]
    rows += [flow(0.1, 4, lane=1), flow(1.1, 4, lane=1, client="c2"), flow(1.2, 9, lane=1, client=None)]
    rows += [flow(0.1, lane=2, client=None)]
    indices = {number: fairness.jain(own) for (number, _), own in frames.slots(rows).items()}
    assert indices == {
        0: {"clients": 3, "jain": pytest.approx(oracle.jain([9, 0, 0]))},
        1: {"clients": 2, "jain": 1.0},
        2: None,
    }


def engaged(rows: list[frames.Row]) -> dict[str, Any]:
    return engage.engage(frames.slots(rows)[0, "log"], lane())


def test_engage_and_release() -> None:
    # 10 a second and a burst of 10. From 1 s to 4 s there are 4 each 200 ms, 20 a second: the bucket is spent
    # when 10 more than the rate were asked for: with the fifth group, 20 in the 0.8 s up to 1.8 s. First held
    # at 2.4 s; from 4 s on 5 a second; the last is held at 4.8 s.
    rows = [flow(1 + group / 5, 4) for group in range(15)] + [flow(4 + step / 5) for step in range(25)]
    rows += [flow(2.4, 1, "held"), flow(4.8, 1, "held")]
    spent = engaged(rows)
    assert (spent["spent_us"], spent["first_limited_us"], spent["engage_ms"]) == (1_800_000, 2_400_000, 600.0)
    # The last second with more than 10 is that up to 4.4 s: two groups and three single ones, 11.
    assert (spent["fell_us"], spent["last_limited_us"], spent["release_ms"]) == (4_500_000, 4_800_000, 300.0)


def test_a_load_that_stays_high_is_never_released() -> None:
    rows = [flow(step / 10, 2) for step in range(100)]
    rows += [flow(step / 10, 1, "refused") for step in range(12, 100)]
    spent = engaged(rows)
    assert (spent["fell_us"], spent["release_ms"]) == (None, None)


def test_a_load_below_the_limit_spends_nothing() -> None:
    spent = engaged([flow(1), flow(2)])
    assert (spent["spent_us"], spent["first_limited_us"], spent["engage_ms"]) == (None, None, None)


def test_the_synthetic_log_keeps_its_promises(tmp_path: Path) -> None:
    """It is what the benchmarks read: its figures are known, and the transforms find them."""
    import sys

    sys.path.append(str(Path(__file__).resolve().parents[3]))
    from benchmarks.harness import synthetic

    written = synthetic.write_decisions(tmp_path, 120_000)
    trials = [
        Trial("max_publish_rate", system, door, "load", topic, synthetic.RATE, written.start, written.end)
        for system, door, topic in written.topics
    ]
    files = tuple(str(path) for path in tmp_path.rglob("*.parquet"))
    assert written.rows == sum(pq.read_metadata(path).num_rows for path in files) == 120_000
    rates = rate_figures.rates(trials, {})
    figures = Figures([OfTopic("rates", rates.of_slice, rates.together)])
    measures = packed_here({"decisions": packing.Source(files)}).measured(figures)
    worst = [row["excess"] for row in measures["laws"]]
    assert len(worst) == len(written.topics) == 24
    assert max(worst) == pytest.approx(0, abs=1e-6)
    judged = {name: sum(row[name] for row in measures["judged"]) for name in _JUDGED}
    assert judged["admitted"] + judged["refused"] == 120_000
    assert (judged["wrongly_admitted"], judged["wrongly_refused"]) == (0, 0)
    assert judged["refused"] > 1_000
