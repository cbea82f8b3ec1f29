"""Lanes, flows and slots, and the figures of rates, on small frames."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from tests.reports import frames, oracle
from tests.reports.frames import flow, one, rows_of, trial

from sluicegate_reports.runs import Trial
from sluicegate_reports.transforms import (
    chunks,
    engage,
    fairness,
    first_second,
    flows,
    lanes,
    overshoot,
    refusals,
    slots,
    windows,
)

SECOND = 1_000_000


def lane(spark: SparkSession, *trials: Trial) -> DataFrame:
    return lanes.lanes(spark, trials or (trial(),))


def slotted(spark: SparkSession, rows: list[frames.Row], width_us: int = 100_000) -> DataFrame:
    return slots.by_client(frames.flows(spark, rows), width_us)


def chunked(spark: SparkSession, rows: list[frames.Row]) -> DataFrame:
    return chunks.chunks(frames.flows(spark, rows), 10 * SECOND)


def test_only_tried_rates_have_a_lane(spark: SparkSession) -> None:
    found = lanes.lanes(
        spark,
        [
            trial("max_message_size", 100),
            trial(limit=10, burst_seconds=2.0),
            trial(missing="no broker"),
            trial("connection_rate_limit", 5, topic=""),
        ],
        {("kafka", "proxy"): 250_000},
    )
    start = 1_795_262_400 * SECOND
    assert rows_of(
        found, "lane", "topic", "operation", "counts", "rate", "burst", "begin_us", "gate_begin_us"
    ) == [
        (1, "orders", "publish", "messages", 10.0, 20.0, start, start + 250_000),
        (3, "*", "attach", "attachments", 5.0, 5.0, start, start + 250_000),
    ]


def test_decisions_of_a_lane_become_flows(spark: SparkSession) -> None:
    log = frames.decisions(
        spark,
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
    found = flows.from_decisions(log, lane(spark))
    assert found.columns == list(flows.COLUMNS)
    assert rows_of(found, *flows.COLUMNS[:7]) == [
        (0, "log", None, 0, 7, 100, "admitted"),
        (0, "log", None, SECOND, 3, 100, "admitted"),
        (0, "log", "c1", 2 * SECOND, 1, 0, "refused"),
        (0, "log", "c1", 3 * SECOND, 1, 0, "held"),
        (0, "log", "c1", 4 * SECOND, 1, 0, "admitted"),
        (0, "log", "c1", 5 * SECOND, 1, 0, "dropped"),
    ]


def test_amounts_of_each_kind_of_lane(spark: SparkSession) -> None:
    log = frames.decisions(
        spark,
        [
            {"at": 1, "messages": 3, "bytes": 900},
            {"at": 2, "operation": "dispatch", "subscription": "s1", "messages": 2, "bytes": 200},
            {"at": 2, "operation": "dispatch", "subscription": "s2", "messages": 5, "bytes": 500},
            {"at": 3, "operation": "attach_consumer", "topic": "other", "messages": 0},
        ],
    )
    found = flows.from_decisions(
        log,
        lane(
            spark,
            trial("max_publish_rate_bytes", 1000),
            trial("max_subscription_dispatch_rate", 10, subscription="s1"),
            trial("max_dispatch_rate", 10),
            trial("connection_rate_limit", 5, topic=""),
        ),
    )
    assert rows_of(found, "lane", "amount") == [(0, 900), (1, 2), (2, 2), (2, 5), (3, 1)]


def test_observations_become_flows(spark: SparkSession) -> None:
    seen = frames.observed(
        spark,
        [
            {"at": 1, "event": "sent"},
            {"at": 2},
            {"at": 3, "event": "refused"},
            {"at": 4, "event": "failed"},
            {"at": 5, "event": "received", "role": "consumer", "client": "c1", "subscription": "s1"},
            {"at": 6, "event": "acknowledged", "role": "consumer", "client": "c1", "subscription": "s1"},
            {"at": 7, "event": "attached"},
        ],
    )
    both = lane(spark, trial(), trial("max_dispatch_rate"), trial("connection_rate_limit", 5, topic=""))
    found = flows.from_observations(seen, both)
    assert found.columns == list(flows.COLUMNS)
    assert rows_of(found, "lane", "source", "client", "at_us", "action") == [
        (0, "clients", "p1", SECOND, "offered"),
        (0, "clients", "p1", 2 * SECOND, "admitted"),
        (0, "clients", "p1", 3 * SECOND, "refused"),
        (0, "clients", "p1", 4 * SECOND, "failed"),
        (1, "clients", "c1", 5 * SECOND, "admitted"),
        (2, "clients", "p1", 7 * SECOND, "admitted"),
    ]


def test_slots_sum_up(spark: SparkSession) -> None:
    found = slotted(
        spark,
        [
            flow(0.01, 2),
            flow(0.05, 3),
            flow(0.09, 1, "refused"),
            flow(0.10, 4, "held"),
            flow(0.02, 5, source="clients"),
            flow(0.03, 6, "offered", source="clients"),
        ],
    )
    columns = (
        "source",
        "slot",
        "admitted",
        "offered",
        "limited",
        "first_us",
        "last_us",
        "first_limited_us",
        "largest",
    )
    assert rows_of(found, *columns) == [
        ("clients", 0, 5, 6, 0, 20_000, 20_000, None, 5),
        ("log", 0, 5, 6, 1, 10_000, 50_000, 90_000, 3),
        ("log", 1, 0, 0, 1, None, None, 100_000, None),
    ]


def test_each_second(spark: SparkSession) -> None:
    sums = slotted(spark, [flow(0.95), flow(0.99, client="c2"), flow(1.0), flow(1.5, 1, "refused")])
    assert rows_of(windows.per_second(sums, 100_000)) == [(0, "log", 0, 2, 2, 0), (0, "log", 1, 1, 2, 1)]


def test_the_worst_windows_by_hand(spark: SparkSession) -> None:
    # 10 a second, one each 100 ms, but 2 too many at 5.0 s and 3 seconds later a hole of half a second. The
    # burst counts as spent 2 s after the start. Windows of 1 s: the worst hold 12, the least 5.
    hole = range(80, 85)
    rows = [flow(slot / 10 + 0.05) for slot in range(100) if slot not in hole]
    rows += [flow(5.05), flow(5.06), flow(0.01, 50)]
    found = one(windows.rate_error(slotted(spark, rows), lane(spark), 100_000, 1))
    assert (found["windows"], found["largest"]) == (71, 1)
    assert (found["above"], found["below"]) == (pytest.approx(0.2), pytest.approx(-0.5))


def test_windows_begin_at_the_first_refusal(spark: SparkSession) -> None:
    rows = [flow(0.01, 10), flow(0.5, 1, "refused")] + [flow(slot / 10 + 0.05) for slot in range(6, 100)]
    found = one(windows.rate_error(slotted(spark, rows), lane(spark), 100_000, 2))
    assert (found["windows"], found["above"], found["below"]) == (94 - 19, 0.0, 0.0)


def test_clients_that_are_held_have_spent_the_burst_when_the_log_says_so(spark: SparkSession) -> None:
    rows = [
        flow(3.5, 1, "held"),
        *(flow(n, source=source) for n in range(10) for source in ("log", "clients")),
    ]
    found = windows.rate_error(slotted(spark, rows), lane(spark), 100_000, 2)
    assert rows_of(found, "source", "windows") == [("clients", 100 - 36 - 19), ("log", 100 - 36 - 19)]


def test_a_lane_too_short_for_a_window_has_none(spark: SparkSession) -> None:
    short = lane(spark, trial(end=frames.at(2.5)))
    found = one(windows.rate_error(slotted(spark, [flow(0.1)]), short, 100_000, 1))
    assert (found["windows"], found["above"], found["below"]) == (0, None, None)
    shorter = lane(spark, trial(end=frames.at(0.5)))
    assert windows.rate_error(slotted(spark, [flow(0.1)]), shorter, 100_000, 1).collect() == []


def test_the_first_second_begins_with_the_first_admission(spark: SparkSession) -> None:
    rows = [flow(2.0, 1, "refused"), flow(2.5, 12), flow(3.0, 3), flow(3.499999, 4), flow(3.5, 100)]
    all_flows = frames.flows(spark, rows)
    found = one(first_second.first_second(chunks.chunks(all_flows, 0), lane(spark)))
    assert found == {"lane": 0, "source": "log", "first_second": 19, "allowed": 20.0, "largest": 12}


def test_overshoot_by_hand(spark: SparkSession) -> None:
    cases: list[tuple[list[tuple[float, int]], float]] = [
        ([(0.1, 10)], 0),
        ([(0.1, 10), (0.1, 1)], 1),
        ([(0.1, 10), (1.1, 10)], 0),
        ([(0.9, 10), (1.0, 2)], 1),  # in two chunks
        ([(0.1, 1), (5.9, 10), (7.9, 30), (8.1, 5)], 23),  # the last two: 35 in 0.2 s, of 2 + 10
    ]
    rows = [flow(*each, lane=number) for number, (admitted, _) in enumerate(cases) for each in admitted]
    trials = [trial(topic=f"t{number}") for number in range(len(cases))]
    found = overshoot.overshoot(chunked(spark, rows), lane(spark, *trials))
    measured = rows_of(found, "lane", "overshoot", "admitted")
    for (admitted, worst), (_, risen, total) in zip(cases, measured, strict=True):
        assert risen == pytest.approx(worst, abs=1e-6)
        assert total == sum(amount for _, amount in admitted)


def test_overshoot_of_lanes_and_sources_apart(spark: SparkSession) -> None:
    rows = [flow(1, 11), flow(1, 13, source="clients"), flow(1, 17, lane=1), flow(1, 99, "refused")]
    found = overshoot.overshoot(chunked(spark, rows), lane(spark, trial(), trial(topic="other")))
    assert rows_of(found, "lane", "source", "overshoot") == [
        (0, "clients", 3.0),
        (0, "log", 1.0),
        (1, "log", 7.0),
    ]


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lists=st.lists(
        st.lists(st.tuples(st.integers(0, 5 * SECOND), st.integers(1, 40)), min_size=1, max_size=40),
        min_size=8,
        max_size=8,
    )
)
def test_overshoot_matches_the_oracle(spark: SparkSession, lists: list[list[tuple[int, int]]]) -> None:
    # Eight lanes to one query: a query takes longer than what it computes here.
    rows = [
        flow(at_us / SECOND, amount, lane=number)
        for number, each in enumerate(lists)
        for at_us, amount in each
    ]
    trials = [
        trial(limit=7 + number, burst_seconds=0.5 * (1 + number), topic=f"t{number}") for number in range(8)
    ]
    found = overshoot.overshoot(chunked(spark, rows), lane(spark, *trials))
    expected = [
        float(oracle.overshoot(sorted(each), t.limit, t.burst)) for t, each in zip(trials, lists, strict=True)
    ]
    assert [row[1] for row in rows_of(found, "lane", "overshoot")] == pytest.approx(expected, abs=1e-6)


def test_judged_refusals_match_the_oracle(spark: SparkSession) -> None:
    asked = [(0.0, 10, "admitted"), (0.0, 1, "admitted"), (0.05, 1, "refused"), (1.0, 5, "refused")]
    rows = [flow(*each) for each in asked]
    rows += [flow(3.0, 1, "held"), flow(4.0, 1, "refused", lane=1), flow(5.0, 1, lane=1, window_ms=100)]
    both = lane(spark, trial(), trial(topic="other"))
    found = one(refusals.refusals(chunked(spark, rows), both, 10 * SECOND))
    # The second is one too many; the bucket then holds 9 at 1 s, so 5 might have passed. A perfect gate
    # refuses the second, and the third for its half token; at 1 s it holds 10.
    assert found == {
        "lane": 0,
        "admitted": 2,
        "refused": 2,
        "wrongly_admitted": 1,
        "wrongly_refused": 1,
        "ideal_refused": 2,
    }


def test_refusals_beyond_the_bound_are_not_judged(spark: SparkSession) -> None:
    rows = [flow(0.0, 10), flow(2.0, 1, "refused")]
    found = one(refusals.refusals(chunked(spark, rows), lane(spark), SECOND))
    assert (found["admitted"], found["refused"]) == (1, 0)


def test_jain_counts_clients_that_got_nothing(spark: SparkSession) -> None:
    rows = [flow(0.1, 9), flow(0.2, 9, "refused", client="c2"), flow(0.3, 9, "refused", client="c3")]
    rows += [flow(0.1, 4, lane=1), flow(1.1, 4, lane=1, client="c2"), flow(1.2, 9, lane=1, client=None)]
    found = fairness.jain(slotted(spark, rows))
    assert rows_of(found, "lane", "clients", "jain") == [
        (0, 3, pytest.approx(oracle.jain([9, 0, 0]))),
        (1, 2, 1.0),
    ]


def test_engage_and_release(spark: SparkSession) -> None:
    # 10 a second and a burst of 10. From 1 s to 4 s there are 4 each 200 ms, 20 a second: the bucket is spent
    # when 10 more than the rate were asked for: with the fifth group, 20 in the 0.8 s up to 1.8 s. First held
    # at 2.4 s; from 4 s on 5 a second; the last is held at 4.8 s.
    rows = [flow(1 + group / 5, 4) for group in range(15)] + [flow(4 + step / 5) for step in range(25)]
    rows += [flow(2.4, 1, "held"), flow(4.8, 1, "held")]
    found = one(engage.engage(slotted(spark, rows), lane(spark), 100_000))
    assert (found["spent_us"], found["first_limited_us"], found["engage_ms"]) == (1_800_000, 2_400_000, 600.0)
    # The last second with more than 10 is that up to 4.4 s: two groups and three single ones, 11.
    assert (found["fell_us"], found["last_limited_us"], found["release_ms"]) == (4_500_000, 4_800_000, 300.0)


def test_a_load_that_stays_high_is_never_released(spark: SparkSession) -> None:
    rows = [flow(step / 10, 2) for step in range(100)] + [
        flow(step / 10, 1, "refused") for step in range(12, 100)
    ]
    found = one(engage.engage(slotted(spark, rows), lane(spark), 100_000))
    assert (found["fell_us"], found["release_ms"]) == (None, None)


def test_a_load_below_the_limit_spends_nothing(spark: SparkSession) -> None:
    found = one(engage.engage(slotted(spark, [flow(1), flow(2)]), lane(spark), 100_000))
    assert (found["spent_us"], found["first_limited_us"], found["engage_ms"]) == (None, None, None)


def test_the_synthetic_log_keeps_its_promises(spark: SparkSession, tmp_path: Path) -> None:
    """It is what the benchmarks read: its figures are known, and the transforms find them."""
    import sys

    sys.path.append(str(Path(__file__).resolve().parents[3]))
    from benchmarks.harness import synthetic

    written = synthetic.write_decisions(tmp_path, 120_000)
    found: dict[str, Any] = {}
    trials = [
        Trial("max_publish_rate", system, door, "load", topic, synthetic.RATE, written.start, written.end)
        for system, door, topic in written.topics
    ]
    log = spark.read.parquet(*(str(path) for path in tmp_path.rglob("*.parquet")))
    all_chunks = chunks.chunks(flows.from_decisions(log, lanes.lanes(spark, trials)), 10 * SECOND)
    assert written.rows == log.count() == 120_000
    worst = [
        row[0] for row in rows_of(overshoot.overshoot(all_chunks, lanes.lanes(spark, trials)), "overshoot")
    ]
    assert len(worst) == len(written.topics) == 24
    assert max(worst) == pytest.approx(0, abs=1e-6)
    judged = refusals.refusals(all_chunks, lanes.lanes(spark, trials), 10 * SECOND)
    found = {name: sum(row[name] for row in judged.collect()) for name in judged.columns}
    assert found["admitted"] + found["refused"] == 120_000
    assert (found["wrongly_admitted"], found["wrongly_refused"]) == (0, 0)
    assert found["refused"] > 1_000
