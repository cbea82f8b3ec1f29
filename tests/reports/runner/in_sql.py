"""The figures of a recorded run in plain SQL over its files, without any code of the reports."""

from pathlib import Path
from typing import Any

import duckdb
import pytest
from benchmarks.harness.report_sql import MESSAGES
from tests.reports import oracle
from tests.reports.runner import answers_in_sql, attribution_in_sql
from tests.reports.runner.answers_in_sql import FAMILIES, rows_of

from sluicegate_reports.model.results import Results
from sluicegate_reports.model.runs import Family, Run, Trial, measured_as

_DELIVERY = f"""
{MESSAGES}
SELECT told.system, told.door, told.topic, told.phase, subscription,
       count(*) FILTER (stored), count(times), count(*) FILTER (stored AND times IS NULL),
       coalesce(sum(times - 1), 0), count(*) FILTER (late), count(*) FILTER (size <> got_size),
       count(*) FILTER (refused AND times > 0),
       count(*) FILTER (NOT stored AND NOT refused AND times > 0)
FROM told JOIN subscribed USING (system, door, topic)
LEFT JOIN got USING (system, door, topic, producer, sequence, subscription)
GROUP BY ALL ORDER BY ALL
"""
_FLOW = """
SELECT greatest(at_us, 0) AS at_us, * EXCLUDE at_us FROM (
  SELECT epoch_us(time) - $begin - $ahead AS at_us, "window" * 1000 AS long_us, client,
         CASE WHEN $bytes THEN bytes ELSE messages END AS amount,
         action IN ('allow', 'rewrite') AS passed,
         action IN ('reject', 'drop', 'delay') AS limited,
         action <> 'delay' AS offered, messages, NULL AS since_us
  FROM decided WHERE $log AND system = $system AND door = $door AND topic = $topic AND operation = $operation
    AND ($subscription = '' OR subscription = $subscription)
    AND (action IN ('allow', 'rewrite') OR policy IS NULL OR policy = $policy)
  UNION ALL
  SELECT epoch_us(time) - $begin, 0, client, CASE WHEN $bytes THEN bytes ELSE messages END,
         event IN ('acknowledged', 'received'), event = 'refused', event = 'sent', messages,
         epoch_us(time) - latency_ns // 1000 - $begin
  FROM seen WHERE NOT $log AND system = $system AND door = $door AND topic = $topic
    AND ($subscription = '' OR subscription = $subscription)
    AND role = CASE WHEN $operation = 'publish' THEN 'producer' ELSE 'consumer' END
    AND event IN (CASE WHEN $operation = 'publish' THEN 'acknowledged' ELSE 'received' END,
                  'sent', 'refused', 'failed')
) WHERE at_us + long_us >= -$early AND at_us < $length
"""
_MOMENTS = """
CREATE OR REPLACE TEMP TABLE moments AS
WITH came AS (
  SELECT *, sum(messages) OVER (ORDER BY at_us, amount ROWS UNBOUNDED PRECEDING) AS before,
         at_us - coalesce(lag(at_us) OVER (ORDER BY at_us, amount), at_us) AS gap_us,
         at_us // 200000 AS slot
  FROM flow WHERE passed),
let AS (
  SELECT at_us, sum(messages) OVER (ORDER BY at_us, amount ROWS UNBOUNDED PRECEDING) AS total
  FROM by_log WHERE passed),
gaps AS (SELECT slot, max(gap_us) AS us FROM came GROUP BY slot),
told AS (
  SELECT came.*, CASE
    WHEN $log THEN came.at_us
    WHEN NOT (SELECT count(*) > 0 FROM by_log)
      THEN came.at_us - least((SELECT max(us) FROM gaps WHERE slot IN (came.slot, came.slot - 1)), 2000000)
    ELSE greatest(coalesce(let.at_us, came.at_us), came.at_us - 4000000) END AS early_us
  FROM came ASOF LEFT JOIN let ON let.total >= came.before)
SELECT least(at_us, greatest(early_us, CASE WHEN $log THEN early_us ELSE coalesce(since_us, early_us) END))
         AS early_us,
       at_us + long_us AS late_us, amount
FROM told
"""
_EXCESS = """
WITH ends AS (
  SELECT early_us AS at_us, false AS ends, amount FROM moments
  UNION ALL SELECT late_us, true, amount FROM moments),
sums AS (
  SELECT *, sum(CASE WHEN ends THEN 0 ELSE amount END) OVER so_far AS early,
         sum(CASE WHEN ends THEN amount ELSE 0 END) OVER so_far AS late
  FROM ends WINDOW so_far AS (ORDER BY at_us, ends, amount ROWS UNBOUNDED PRECEDING)),
risen AS (
  SELECT ends, late - $rate * at_us / 1e6
    - min(CASE WHEN NOT ends THEN early - amount - $rate * at_us / 1e6 END)
        OVER (ORDER BY at_us, ends, amount ROWS UNBOUNDED PRECEDING) AS rise
  FROM sums)
SELECT max(rise) FILTER (ends) - greatest($burst, (SELECT max(amount) FROM moments)) FROM risen
"""
_SUMS = "SELECT sum(amount) FILTER (passed) FROM flow"
_JAIN = """
SELECT count(*), sum(share) ^ 2 / (count(*) * sum(share * share)) FROM (
  SELECT client, coalesce(sum(amount) FILTER (passed), 0)::DOUBLE AS share FROM flow
  WHERE client IS NOT NULL GROUP BY client)
"""
_ENGAGED = """
WITH slots AS (
  SELECT at_us // 100000 AS slot, coalesce(sum(amount) FILTER (offered), 0) AS offered,
         min(at_us) FILTER (limited) AS first_us, max(at_us) FILTER (limited) AS last_us
  FROM flow GROUP BY slot),
ran AS (
  SELECT *, sum(offered) OVER (ORDER BY slot ROWS UNBOUNDED PRECEDING) - $rate * slot / 10 AS x,
         sum(offered) OVER (ORDER BY slot RANGE BETWEEN 9 PRECEDING AND CURRENT ROW) > $rate AS busy
  FROM slots),
low AS (SELECT *, min(x - offered) OVER (ORDER BY slot ROWS UNBOUNDED PRECEDING) AS lowest FROM ran),
found AS (
  SELECT min(slot * 100000) FILTER (x - lowest > $burst) AS spent_us, min(first_us) AS first_us,
         max(slot * 100000 + 100000) FILTER (busy) AS fell_us, max(last_us) AS last_us FROM low)
SELECT (first_us - spent_us) / 1000,
       CASE WHEN fell_us + 1000000 <= $length AND last_us IS NOT NULL
            THEN greatest(last_us - fell_us, 0) / 1000 END
FROM found
"""
# Thousandths of a millionth of what is counted, as whole numbers: a bucket is compared to the microsecond.
_ASKED = """
CREATE OR REPLACE TEMP TABLE asked AS
SELECT at_us, amount, passed, (least(amount, $burst) * 1000000000)::BIGINT AS enough,
       (amount * 1000000000)::BIGINT AS need,
       row_number() OVER (ORDER BY at_us, NOT passed, amount DESC) AS nth
FROM by_log WHERE (passed OR (limited AND offered)) AND at_us < 60000000
"""
_STEP = """
CREATE TEMP MACRO step(at_us, enough, need, have, refused) AS {
  'at_us': at_us, 'enough': enough, 'need': need, 'have': have::BIGINT, 'refused': refused}
"""
_REFILLED = """
CREATE TEMP MACRO refilled(bucket, at_us, full_bucket, per_us) AS
  least(full_bucket, bucket.have + (at_us - bucket.at_us) * per_us)
"""
# Folded request by request, as each one finds what all before it have left.
_IDEAL = """
WITH steps AS (
  SELECT list_prepend(step(first(at_us ORDER BY nth), 0::BIGINT, 0::BIGINT, $full_bucket, 0),
                      list(step(at_us, enough, need, 0, 0) ORDER BY nth)) AS steps
  FROM asked)
SELECT list_reduce(steps, lambda bucket, one: CASE
  WHEN refilled(bucket, one.at_us, $full_bucket, $per_us) >= one.enough
  THEN step(one.at_us, one.enough, one.need,
            refilled(bucket, one.at_us, $full_bucket, $per_us) - one.need, bucket.refused)
  ELSE step(one.at_us, one.enough, one.need,
            refilled(bucket, one.at_us, $full_bucket, $per_us), bucket.refused + 1)
  END).refused
FROM steps
"""
_OF_JUDGED = ("refused at first", "wrongly admitted", "wrongly refused", "ideal refused")
_LATENCIES = """
SELECT system, door, scenario, topic, count(*), quantile_disc(latency_ns / 1e6, [0.5, 0.9, 0.99, 0.999]),
       max(latency_ns) / 1e6
FROM seen WHERE role = 'producer' AND event = 'acknowledged' AND latency_ns IS NOT NULL GROUP BY ALL
"""
_DELAYS = """
WITH arm AS (
  SELECT *, epoch_us(time) AS at_us, epoch_us(published) AS sent_us FROM seen
  WHERE system = $system AND door = $door),
spans AS (
  SELECT at_us // 100000 AS slot, min(at_us) AS first_us, max(at_us) AS last_us FROM arm GROUP BY slot),
gaps AS (SELECT slot, first_us - lag(last_us) OVER (ORDER BY slot) AS us FROM spans),
told AS (
  SELECT slot, us FROM gaps WHERE us > 3 * (SELECT quantile_disc(us, 0.9) FROM gaps)
  UNION ALL
  SELECT unnest([sent_us // 100000, at_us // 100000]), at_us - sent_us FROM arm
  WHERE event = 'received' AND sent_us IS NOT NULL AND NOT list_contains($kept, topic)),
late AS (
  SELECT (at_us - sent_us) / 1000 - $limit AS ms, (
    SELECT max(us) FROM told
    WHERE abs(slot - at_us // 100000) <= 2 OR abs(slot - sent_us // 100000) <= 2) AS others_us
  FROM arm WHERE event = 'received' AND sent_us IS NOT NULL AND topic = $topic AND scenario = $phase)
SELECT count(*), CASE WHEN (SELECT min(at_us - sent_us) FROM arm WHERE event = 'received') >= -1000
                      THEN count(*) FILTER (ms < -1) END,
       min(ms), quantile_disc(ms, 0.5), quantile_disc(ms, 0.99),
       quantile_disc(greatest(ms - coalesce(others_us, 0) / 1000, 0), 0.99), max(ms)
FROM late
"""
_LATENESS = ("earliest", "p50", "p99", "p99 beyond others", "latest")
_HOLDS = """
SELECT system, door, topic, policy, sum(decisions), sum(delay) / 1e6, max(delay) / 1e6
FROM decided WHERE action = 'delay' GROUP BY ALL ORDER BY ALL
"""


def check(directory: Path, run: Run, results: Results) -> int:
    """Compare every figure that SQL can tell; the number of those compared."""
    base = _opened(directory)
    compared = _delivery(base, results) + _holds(base, results) + _latencies(base, results)
    for trial in _tried(run, Family.RATE):
        first = _is_first(run, trial)
        given = _flows(base, trial, first, _ahead_us(results, trial))
        for row in rows_of(results, trial):
            compared += _rate(base, trial, row, given) + _judged(base, trial, row, full=first)
    return compared + _answers(base, run, results) + _delays(base, run, results)


def check_answers(directory: Path, run: Run, results: Results) -> int:
    """Likewise of the figures of single answers alone; see `answers_in_sql`."""
    return _answers(_opened(directory), run, results)


def check_rates(directory: Path, run: Run, results: Results) -> int:
    """Likewise of the law of rates, and of the decisions of gates about them, each alone."""
    base = _opened(directory)
    compared = 0
    # A trial of all topics together counts attachments, which these tables do not.
    for trial in (each for each in _tried(run, Family.RATE) if each.topic):
        first = _is_first(run, trial)
        given = _flows(base, trial, first, _ahead_us(results, trial))
        for row in rows_of(results, trial):
            compared += _rate(base, trial, row, given) + _judged(base, trial, row, full=first)
    return compared


def _tried(run: Run, *families: Family) -> list[Trial]:
    """The trials of these families that were carried out."""
    return [
        t for t in run.trials if measured_as(t).family in families and not (t.missing or t.not_applicable)
    ]


def _is_first(run: Run, trial: Trial) -> bool:
    """Whether it is the first one on its topic, whose bucket is full."""
    place = (trial.system, trial.door, trial.topic)
    return all(t.start >= trial.start for t in run.trials if (t.system, t.door, t.topic) == place)


def check_delays(directory: Path, run: Run, results: Results) -> int:
    """Likewise of the figures of fixed delays alone."""
    return _delays(_opened(directory), run, results)


def _answers(base: duckdb.DuckDBPyConnection, run: Run, results: Results) -> int:
    counted = _tried(run, Family.COUNT)
    ahead_us = {(trial.system, trial.door): _ahead_us(results, trial) for trial in reversed(counted)}
    attribution_in_sql.attribute(base, counted, ahead_us)
    return sum(
        answers_in_sql.check(base, trial, row)
        for trial in _tried(run, *FAMILIES)
        for row in rows_of(results, trial)
    )


def _opened(directory: Path) -> duckdb.DuckDBPyConnection:
    base = duckdb.connect()
    for statement in ("SET TimeZone = 'UTC'", _STEP, _REFILLED):
        base.execute(statement)
    for name, folder in (("seen", "observations"), ("decided", "decisions")):
        files = (
            str(path) for path in sorted((directory / folder).glob("*/*/part-*.parquet")) if _whole(path)
        )
        base.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({[*files]})")
    return base


def _whole(path: Path) -> bool:
    """Whether a file was not cut short."""
    return path.read_bytes().endswith(b"PAR1")


def _delivery(base: duckdb.DuckDBPyConnection, results: Results) -> int:
    table = results.tables()["delivery"]
    place = table.columns.index("lost")
    rows = [(*row[:place], row[place] + row[place + 1], *row[place + 2 :]) for row in table.rows]  # type: ignore[operator]
    assert sorted(rows, key=str) == sorted(base.execute(_DELIVERY).fetchall(), key=str)
    return len(rows) * (len(table.columns) - place + 2)


def _holds(base: duckdb.DuckDBPyConnection, results: Results) -> int:
    expected = base.execute(_HOLDS).fetchall()
    table = results.tables().get("holds")
    rows = sorted(table.rows, key=str) if table else []
    for row, own in zip(rows, sorted(expected, key=str), strict=True):
        assert row[:5] == own[:5]
        assert row[5:] == pytest.approx(own[5:])
    return 3 * len(rows)


def _latencies(base: duckdb.DuckDBPyConnection, results: Results) -> int:
    expected = sorted(base.execute(_LATENCIES).fetchall(), key=str)
    table = results.tables().get("latencies")
    rows = sorted(table.rows, key=str) if table else []
    for row, (*place, quantiles, longest) in zip(rows, expected, strict=True):
        assert row[:5] == tuple(place)
        assert row[5:] == pytest.approx((*quantiles, longest))
    return 6 * len(rows)


def _flows(base: duckdb.DuckDBPyConnection, trial: Trial, first: bool, ahead_us: int) -> dict[str, Any]:
    """Tables of what log and clients tell of a trial."""
    rates: dict[str, Any] = {"rate": trial.limit, "burst": trial.burst, "first": first}
    rates["length"] = round((trial.end - trial.start).total_seconds() * 1e6)
    given = {
        "begin": round(trial.start.timestamp() * 1e6),
        "length": rates["length"],
        "bytes": trial.policy.endswith("_bytes"),
        "policy": trial.policy,
        "operation": measured_as(trial).operation,
        "subscription": trial.subscription,
        **{name: getattr(trial, name) for name in ("system", "door", "topic")},
    }
    for log, table in ((True, "by_log"), (False, "by_clients")):
        # A gate's clock is known to some ms, and before a first trial nothing else is decided.
        edges = {"log": log, "early": 100_000 if first and log else 0, "ahead": ahead_us if log else 0}
        base.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {_FLOW}", {**given, **edges})
    return rates


def _ahead_us(results: Results, trial: Trial) -> int:
    """By how much the report takes a gate's clock to be ahead in a trial."""
    spans = [span for span in results.run.clocks if (span.system, span.door) == (trial.system, trial.door)]
    begun = [span for span in spans if span.since <= trial.start]
    return round((begun or spans)[-1 if begun else 0].ahead_us) if spans else 0


def _rate(base: duckdb.DuckDBPyConnection, trial: Trial, row: dict[str, Any], rates: dict[str, Any]) -> int:
    source = "by_log" if row["seen by"] == "log" else "by_clients"
    base.execute(f"CREATE OR REPLACE TEMP VIEW flow AS SELECT * FROM {source}")
    [admitted] = base.execute(_SUMS).fetchone() or [None]
    if admitted is None:
        assert row["admitted"] is None
        return 1
    limits = {name: rates[name] for name in ("rate", "burst")}
    figures: dict[str, Any] = {"admitted": admitted}
    if rates["first"] or row["seen by"] == "log":  # of later ones clients also see what was on its way
        base.execute(_MOMENTS, {"log": row["seen by"] == "log"})
        [figures["largest excess"]] = base.execute(_EXCESS, limits).fetchone() or [None]
    clients, jain = base.execute(_JAIN).fetchone() or (None, None)
    if clients:
        figures |= {"clients": clients, "Jain": jain}
    figures |= zip(
        ("engage", "release"),
        base.execute(_ENGAGED, {**limits, "length": rates["length"]}).fetchone() or (),
        strict=True,
    )
    for name, value in figures.items():
        expected = value if value is None else pytest.approx(value, abs=1e-6)
        assert row[name] == expected, (trial, row["seen by"], name, row[name], value)
    return len(figures)


def _judged(base: duckdb.DuckDBPyConnection, trial: Trial, row: dict[str, Any], *, full: bool) -> int:
    """What a gate decided wrongly, if its log tells of each decision; after `_flows` of the trial."""
    if row["seen by"] != "log" or row["wrongly admitted"] is None:
        return 0
    bucket = {"full_bucket": round(trial.burst * 10**9), "per_us": round(trial.limit * 1000)}
    base.execute(_ASKED, {"burst": trial.burst})
    asked = base.execute("SELECT at_us, amount, passed FROM asked ORDER BY nth").fetchall()
    expected = (
        sum(not passed for _, _, passed in asked),
        *oracle.judged(asked, trial.limit, trial.burst, 2, full=full),
        *(base.execute(_IDEAL, bucket).fetchone() or ()),
    )
    assert tuple(row[name] for name in _OF_JUDGED) == expected, row
    return len(_OF_JUDGED)


def _delays(base: duckdb.DuckDBPyConnection, run: Run, results: Results) -> int:
    keeping = (Family.RATE, Family.DELAY, Family.ASKED_DELAY, Family.UNACKED)
    compared = 0
    for trial in _tried(run, Family.DELAY):
        arm = (trial.system, trial.door)
        kept = [t.topic for t in run.trials if (t.system, t.door) == arm and measured_as(t).family in keeping]
        given = {name: getattr(trial, name) for name in ("system", "door", "topic", "phase", "limit")}
        expected = base.execute(_DELAYS, {**given, "kept": kept}).fetchone() or ()
        names = ("messages", "early", *_LATENESS)
        for row in rows_of(results, trial):
            assert tuple(row[name] or 0 for name in names) == pytest.approx(
                tuple(value or 0 for value in expected), abs=1e-6
            ), (trial, row)
            compared += len(names)
    return compared
