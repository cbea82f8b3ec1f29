"""The figures of a recorded run once more, in plain SQL over its files: no code of the reports takes part."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from sluicegate_reports.results import Results
from sluicegate_reports.runs import Family, Run, Trial

_DELIVERY = """
WITH told AS (
  SELECT system, door, topic, client AS producer, sequence, min(scenario) AS phase,
         bool_or(event = 'acknowledged') AS stored,
         bool_or(event = 'refused') AND NOT bool_or(event = 'acknowledged') AS refused
  FROM seen WHERE role = 'producer' AND event IN ('acknowledged', 'refused', 'failed')
  GROUP BY ALL),
came AS (
  SELECT system, door, topic, producer, sequence, subscription, client, time,
         row_number() OVER (PARTITION BY system, door, topic, producer, sequence, subscription
                            ORDER BY time, client) AS nth
  FROM seen WHERE role = 'consumer' AND event = 'received'),
ordered AS (
  SELECT *, nth = 1 AND sequence < max(CASE WHEN nth = 1 THEN sequence END) OVER (
    PARTITION BY system, door, topic, subscription, client, producer ORDER BY time, sequence
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS late FROM came),
got AS (
  SELECT system, door, topic, producer, sequence, subscription, count(*) AS times, bool_or(late) AS late
  FROM ordered GROUP BY ALL),
subscribed AS (
  SELECT DISTINCT system, door, topic, subscription FROM seen
  WHERE role = 'consumer' AND event IN ('received', 'attached'))
SELECT told.system, told.door, told.topic, told.phase, subscription,
       count(*) FILTER (stored), count(times), count(*) FILTER (stored AND times IS NULL),
       coalesce(sum(times - 1), 0), count(*) FILTER (late), count(*) FILTER (refused AND times > 0),
       count(*) FILTER (NOT stored AND NOT refused AND times > 0)
FROM told JOIN subscribed USING (system, door, topic)
LEFT JOIN got USING (system, door, topic, producer, sequence, subscription)
GROUP BY ALL ORDER BY ALL
"""
_FLOW = """
CREATE OR REPLACE TEMP TABLE flow AS
SELECT greatest(at_us, 0) AS at_us, amount, client, passed, limited FROM (
  SELECT epoch_us(time) - $begin AS at_us, "window" * 1000 AS long_us, client,
         CASE WHEN $bytes THEN bytes ELSE messages END AS amount,
         action IN ('allow', 'rewrite') AS passed,
         action IN ('reject', 'drop', 'delay') AS limited
  FROM decided WHERE $log AND system = $system AND door = $door AND topic = $topic AND operation = $operation
    AND ($subscription = '' OR subscription = $subscription)
    AND (action IN ('allow', 'rewrite') OR policy IS NULL OR policy = $policy)
  UNION ALL
  SELECT epoch_us(time) - $begin, 0, client, CASE WHEN $bytes THEN bytes ELSE messages END,
         event IN ('acknowledged', 'received'), event = 'refused'
  FROM seen WHERE NOT $log AND system = $system AND door = $door AND topic = $topic
    AND ($subscription = '' OR subscription = $subscription)
    AND role = CASE WHEN $operation = 'publish' THEN 'producer' ELSE 'consumer' END
    AND event IN (CASE WHEN $operation = 'publish' THEN 'acknowledged' ELSE 'received' END, 'sent', 'refused')
) WHERE at_us + long_us >= -$early AND at_us < $length
"""
_SUMS = """
SELECT sum(amount) FILTER (passed),
       sum(amount) FILTER (passed AND at_us < (SELECT min(at_us) FROM flow WHERE passed) + 1000000)
FROM flow
"""
_OVERSHOOT = """
WITH ran AS (
  SELECT at_us, amount, sum(amount) OVER so_far AS total FROM flow WHERE passed
  WINDOW so_far AS (ORDER BY at_us, amount ROWS UNBOUNDED PRECEDING)),
low AS (
  SELECT *, min(total - amount - $rate * at_us / 1e6) OVER (
    ORDER BY at_us, amount ROWS UNBOUNDED PRECEDING) AS lowest FROM ran)
SELECT max(total - $rate * at_us / 1e6 - lowest) - $burst FROM low
"""
_JAIN = """
SELECT count(*), sum(share) ^ 2 / (count(*) * sum(share * share)) FROM (
  SELECT client, coalesce(sum(amount) FILTER (passed), 0)::DOUBLE AS share FROM flow
  WHERE client IS NOT NULL GROUP BY client)
"""
_WINDOWS = """
WITH slots AS (
  SELECT slot, coalesce(sum(amount) FILTER (passed), 0) AS admitted
  FROM range($length // 100000) every(slot) LEFT JOIN flow ON at_us // 100000 = slot GROUP BY slot),
steady AS (
  SELECT coalesce(min(at_us) FILTER (limited) // 100000 + 1, ceil(20 * $burst / $rate)) AS first FROM flow),
sums AS (
  SELECT slot, sum(admitted) OVER (ORDER BY slot ROWS BETWEEN $window_s * 10 - 1 PRECEDING AND CURRENT ROW)
    / ($rate * $window_s) - 1 AS error FROM slots)
SELECT count(*), max(error) FROM sums, steady WHERE slot - $window_s * 10 + 1 >= first
"""
_SIZES = """
SELECT count(*), count(*) FILTER (event = 'refused'), max(bytes) FILTER (event = 'acknowledged'),
       count(*) FILTER (event = 'acknowledged' AND bytes > $limit)
FROM seen WHERE system = $system AND door = $door AND topic = $topic AND scenario = $phase
  AND role = 'producer' AND event IN ('acknowledged', 'refused')
"""
_HOLDS = """
SELECT system, door, topic, policy, sum(decisions), sum(delay) / 1e6, max(delay) / 1e6
FROM decided WHERE action = 'delay' GROUP BY ALL ORDER BY ALL
"""


def check(directory: Path, run: Run, results: Results) -> int:
    """Compare every figure that SQL can tell; the number of those compared."""
    base = duckdb.connect()
    base.execute("SET TimeZone = 'UTC'")
    for name, folder in (("seen", "observations"), ("decided", "decisions")):
        base.execute(
            f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{directory}/{folder}/*/*/part-*.parquet')"
        )
    compared = _delivery(base, results) + _holds(base, results)
    for trial in run.trials:
        if trial.missing or trial.not_applicable:
            continue
        first = all(each.start >= trial.start for each in run.trials if each.topic == trial.topic)
        if trial.measured.family is Family.RATE:
            compared += sum(_rate(base, trial, row, first) for row in _rows(results, trial))
        elif trial.measured.family is Family.SIZE:
            compared += sum(_sizes(base, trial, row) for row in _rows(results, trial))
    return compared


def _delivery(base: duckdb.DuckDBPyConnection, results: Results) -> int:
    table = results.tables()["delivery"]
    place = table.columns.index("lost")
    told = [(*row[:place], row[place] + row[place + 1], *row[place + 2 :]) for row in table.rows]  # type: ignore[operator]
    assert sorted(told, key=str) == sorted(base.execute(_DELIVERY).fetchall(), key=str)
    return len(told) * (len(table.columns) - place + 2)


def _holds(base: duckdb.DuckDBPyConnection, results: Results) -> int:
    expected = base.execute(_HOLDS).fetchall()
    table = results.tables().get("holds")
    rows = sorted(table.rows, key=str) if table else []
    for row, told in zip(rows, sorted(expected, key=str), strict=True):
        assert row[:5] == told[:5]
        assert row[5:] == pytest.approx(told[5:])
    return 3 * len(rows)


def _rows(results: Results, trial: Trial) -> list[dict[str, Any]]:
    """The rows of a trial in the table of its policy."""
    table = results.tables()[f"{trial.policy} figures"]
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    place = (trial.system, trial.door, trial.phase, trial.topic)
    return [row for row in rows if tuple(row[n] for n in ("system", "door", "phase", "topic")) == place]


def _rate(base: duckdb.DuckDBPyConnection, trial: Trial, row: dict[str, Any], first: bool) -> int:
    begin = round(trial.start.timestamp() * 1e6)
    length = round((trial.end - trial.start).total_seconds() * 1e6)
    given = {
        "begin": begin,
        "length": length,
        "bytes": trial.policy.endswith("_bytes"),
        "log": row["seen by"] == "log",
        # A gate's clock is known to some ms, and before a first trial nothing else is decided.
        "early": 100_000 if first and row["seen by"] == "log" else 0,
        "policy": trial.policy,
        "operation": trial.measured.operation,
        "subscription": trial.subscription,
        **{name: getattr(trial, name) for name in ("system", "door", "topic")},
    }
    base.execute(_FLOW, given)
    rates = {"rate": trial.limit, "burst": trial.burst}
    admitted, in_first = base.execute(_SUMS).fetchone() or (None, None)
    if admitted is None:
        assert row["admitted"] is None
        return 1
    [over] = base.execute(_OVERSHOOT, rates).fetchone() or [None]
    told: dict[str, Any] = {"admitted": admitted, "first second": in_first, "overshoot": over}
    clients, jain = base.execute(_JAIN).fetchone() or (None, None)
    if clients:
        told |= {"clients": clients, "Jain": jain}
    if row["window (s)"]:
        windows = {**rates, "length": length, "window_s": int(row["window (s)"])}
        told["windows"], told["worst above (share)"] = base.execute(_WINDOWS, windows).fetchone() or (0, 0)
    for name, value in told.items():
        assert row[name] == pytest.approx(value, abs=1e-6), (trial, row["seen by"], name)
    return len(told)


def _sizes(base: duckdb.DuckDBPyConnection, trial: Trial, row: dict[str, Any]) -> int:
    given = {name: getattr(trial, name) for name in ("system", "door", "topic", "phase", "limit")}
    names = ("answers", "refused", "largest let in", "wrongly admitted")
    assert tuple(row[name] for name in names) == base.execute(_SIZES, given).fetchone()
    return len(names)
