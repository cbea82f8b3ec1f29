"""Figures of single answers in plain SQL, without any code of the reports.

They are those of sizes, of delays that producers ask for, of attachments and of what is not acknowledged.
"""

from typing import Any

import duckdb
from tests.reports.runner import attribution_in_sql

from sluicegate_reports.model.results import Results
from sluicegate_reports.model.runs import Family, Trial, measured_as
from sluicegate_reports.registry.arms import MEMBERS, PRODUCERS, SUBSCRIPTIONS

FAMILIES = (Family.SIZE, Family.ASKED_DELAY, Family.COUNT, Family.UNACKED)
_SINGLE = """
WITH sent AS (
  SELECT event, client, sequence, coalesce(code, '') AS code,
         coalesce(CASE WHEN $bytes THEN bytes ELSE delay_ms END, 0) AS value
  FROM seen WHERE system = $system AND door = $door AND topic = $topic AND scenario = $phase
    AND role = 'producer'),
answers AS (SELECT * FROM sent WHERE event IN ('acknowledged', 'refused')),
codes AS (SELECT DISTINCT code FROM answers WHERE event = 'refused' AND value > $limit),
untold AS (
  SELECT value FROM sent AS one
  WHERE event IN ('sent', 'failed') AND value > $limit
    AND NOT EXISTS (FROM answers AS other WHERE other.client = one.client AND other.sequence = one.sequence)
    AND EXISTS (FROM seen WHERE seen.system = $system AND seen.door = $door AND seen.topic = $topic
                AND seen.event = 'received' AND seen.producer = one.client AND seen.sequence = one.sequence)
  GROUP BY client, sequence, value)
SELECT count(*) + (SELECT count(*) FROM untold), count(*) FILTER (event = 'refused'),
       count(*) FILTER (event = 'refused' AND code NOT IN (FROM codes)),
       greatest(max(value) FILTER (event = 'acknowledged'), (SELECT max(value) FROM untold)),
       count(*) FILTER (event = 'acknowledged' AND value > $limit) + (SELECT count(*) FROM untold),
       count(*) FILTER (event = 'refused' AND value <= $limit AND code IN (FROM codes))
FROM answers
"""
_OF_SINGLE = (
    "answers",
    "refused",
    "refused otherwise",
    "largest let in",
    "wrongly admitted",
    "wrongly refused",
)
_UNACKED = """
WITH changes AS (
  SELECT client, epoch_us(time) AS at_us,
         CASE event WHEN 'received' THEN messages ELSE -messages END AS change
  FROM seen WHERE system = $system AND door = $door AND topic = $topic AND role = 'consumer'
    AND event IN ('received', 'acknowledged') AND epoch_us(time) < $end
  QUALIFY row_number() OVER (PARTITION BY client, producer, sequence, event ORDER BY time) = 1),
held AS (
  SELECT *, sum(change) OVER (PARTITION BY client ORDER BY at_us, change ROWS UNBOUNDED PRECEDING) AS held
  FROM changes)
SELECT count(DISTINCT client) FILTER (change > 0), sum(change) FILTER (change > 0),
       -sum(change) FILTER (change < 0), max(held) FILTER (at_us >= $begin)
FROM held
"""
_OF_UNACKED = ("consumers", "received", "acknowledged", "most unacknowledged")
_COUNTS = """
WITH events AS (
  SELECT event, client, subscription, epoch_us(time) AS told_us,
         coalesce(epoch_us(time) - latency_ns // 1000, epoch_us(time)) AS began_us
  FROM seen WHERE system = $system AND door = $door AND topic = $topic AND role = $role
    AND ($subscription = '' OR subscription = $subscription)
    AND event IN ('attached', 'attach_refused', 'detached') AND epoch_us(time) < $end),
counted AS (
  SELECT *, CASE WHEN $members THEN subscription END AS place FROM events
  WHERE NOT $of_number OR event = 'attach_refused'
  UNION ALL
  SELECT *, NULL FROM events WHERE $of_number AND event = 'attached'
  QUALIFY row_number() OVER (PARTITION BY subscription ORDER BY told_us, client) = 1),
points AS (
  SELECT *, told_us AS at_us, CASE event WHEN 'attached' THEN 4 ELSE 5 END AS nth,
         CASE event WHEN 'attached' THEN 1 ELSE 0 END AS change, event <> 'detached' AS asks FROM counted
  UNION ALL
  SELECT *, began_us, CASE event WHEN 'detached' THEN 0 ELSE 1 END,
         CASE event WHEN 'detached' THEN -1 ELSE 0 END, event = 'attach_refused' FROM counted
  WHERE event <> 'attached'),
there AS (
  SELECT *, sum(change) OVER (PARTITION BY place ORDER BY at_us, nth RANGE UNBOUNDED PRECEDING) AS there
  FROM points)
SELECT count(*) FILTER (event = 'attached'), coalesce(max(there), 0),
       count(*) FILTER (event = 'attached' AND there > $limit)
FROM there WHERE asks AND told_us >= $begin
"""
_OF_REFUSALS = ("refused by it", "refused, unclear by whom", "refused otherwise")


def check(base: duckdb.DuckDBPyConnection, trial: Trial, row: dict[str, Any]) -> int:
    """Compare the figures of a trial, after `attribution_in_sql.attribute`; the number of those compared."""
    expected = _figures(base, trial)
    figures = {name: row[name] or 0 for name in expected}
    assert figures == expected, (trial, row)
    return len(expected)


def rows_of(results: Results, trial: Trial) -> list[dict[str, Any]]:
    """The rows of a trial in the table of its policy."""
    table = results.tables()[f"{trial.policy} figures"]
    columns = [name.removesuffix(" (bytes)").removesuffix(" (ms)") for name in table.columns]
    rows = [dict(zip(columns, row, strict=True)) for row in table.rows]
    # A column that tells no rows apart is not there.
    place = [name for name in ("system", "door", "phase", "topic", "subscription") if name in columns]
    return [row for row in rows if all(row[name] == getattr(trial, name) for name in place)]


def _figures(base: duckdb.DuckDBPyConnection, trial: Trial) -> dict[str, Any]:
    given = {name: getattr(trial, name) for name in ("system", "door", "topic")}
    times = {name: round(at.timestamp() * 1e6) for name, at in (("begin", trial.start), ("end", trial.end))}
    family = measured_as(trial).family
    if family is Family.UNACKED:
        values = base.execute(_UNACKED, {**given, **times}).fetchone() or ()
        return dict(zip(_OF_UNACKED, (value or 0 for value in values), strict=True))
    limit = {"limit": trial.limit}
    if family is not Family.COUNT:
        of_message = {"phase": trial.phase, "bytes": family is Family.SIZE}
        values = base.execute(_SINGLE, {**given, **limit, **of_message}).fetchone() or ()
        return dict(zip(_OF_SINGLE, (value or 0 for value in values), strict=True))
    kind = {
        "role": "producer" if trial.policy == PRODUCERS else "consumer",
        "subscription": trial.subscription,
        "members": trial.policy == MEMBERS,
        "of_number": trial.policy == SUBSCRIPTIONS,
    }
    attached, most, wrong = base.execute(_COUNTS, {**given, **times, **limit, **kind}).fetchone() or ()
    of_trial = {"policy": trial.policy, "role": kind["role"], "subscription": trial.subscription}
    refused = attribution_in_sql.whose(base, {**given, **times, **of_trial})
    return {
        "let in": attached,
        **dict(zip(_OF_REFUSALS, refused, strict=True)),
        "most at once": most,
        "wrongly admitted": wrong,
    }
