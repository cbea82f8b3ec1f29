"""Which policy refused an attachment, in plain SQL; of the reports' code it uses only the tables of words."""

from collections.abc import Sequence

import duckdb

from sluicegate_reports.model.runs import Trial
from sluicegate_reports.registry import systems
from sluicegate_reports.registry.arms import OF_CONSUMERS, PRODUCERS
from sluicegate_reports.transforms.attribution import texts

_REFUSED = """
CREATE TEMP TABLE refused AS
SELECT row_number() OVER () AS nth, system, door, topic, role, client, subscription, code, text,
       epoch_us(time) AS told_us,
       coalesce(epoch_us(time) - latency_ns // 1000, epoch_us(time) - 3000000) - 500000 AS from_us,
       nullif(regexp_extract(coalesce(text, ''), '\\[sluicegate ([0-9a-z]{4,}-[0-9a-z]+)\\]', 1), '') AS id
FROM seen SEMI JOIN counted USING (system, door, topic) WHERE event = 'attach_refused'
"""
_ROWS = """
CREATE TEMP TABLE rejected AS
WITH named AS (SELECT DISTINCT system, door, client AS name, true AS known FROM refused)
SELECT system, door, topic, coalesce(subscription, '') AS subscription, policy, decision_id, name,
       coalesce(known, false) AS known,
       CASE operation WHEN 'attach_producer' THEN 'producer' ELSE 'consumer' END AS role,
       epoch_us(time) - coalesce(ahead_us, 0) AS at_us
FROM (SELECT *, split_part(client, '@', 1) AS name FROM decided
      WHERE operation IN ('attach_producer', 'create_subscription', 'attach_consumer') AND action = 'reject'
        AND system IN ({systems}))
LEFT JOIN named USING (system, door, name) LEFT JOIN clocks USING (system, door)
"""
_FOUND = """
CREATE TEMP TABLE found AS
WITH of_row AS (
  SELECT nth, policy, 0 AS rank FROM refused JOIN rejected ON decision_id = id
  UNION ALL
  SELECT nth, policy, CASE WHEN known THEN 1 ELSE 2 END
  FROM refused AS r JOIN rejected AS d ON r.system = d.system AND r.door = d.door AND r.topic = d.topic
    AND r.role = d.role AND coalesce(r.subscription, '') = d.subscription AND (NOT known OR name = client)
    AND at_us // 1000000 BETWEEN from_us // 1000000 AND (told_us + 500000) // 1000000),
best AS (
  SELECT nth, rank, list_sort(list(DISTINCT policy) FILTER (policy IS NOT NULL)) AS in_log FROM of_row
  GROUP BY nth, rank QUALIFY rank = min(rank) OVER (PARTITION BY nth)),
worded AS (
  SELECT nth, arg_min(policy, place) AS policy FROM refused JOIN words ON contains(text, word) GROUP BY nth),
here AS (SELECT system, door, topic, list(DISTINCT policy) AS here FROM counted GROUP BY ALL),
answers AS (
  SELECT nth, list_sort(list(DISTINCT a.policy)) AS answered
  FROM refused AS r JOIN here USING (system, door, topic)
  JOIN answering AS a ON a.system = r.system AND a.role = r.role
    AND (r.code IS NULL OR r.code = a.code) AND list_contains(here, a.policy)
  GROUP BY nth)
SELECT refused.*,
       CASE WHEN rank = 0 THEN in_log WHEN worded.policy IS NOT NULL THEN [worded.policy]
            WHEN len(in_log) > 0 THEN in_log ELSE coalesce(answered, []) END AS policies,
       rank IS DISTINCT FROM 0 AND worded.policy IS NULL AND coalesce(len(in_log), 0) = 0
         AND door <> 'native' AS unrecorded
FROM refused LEFT JOIN best USING (nth) LEFT JOIN worded USING (nth) LEFT JOIN answers USING (nth)
"""
_WHOSE = """
SELECT count(*) FILTER (may_be AND len(policies) = 1 AND NOT unrecorded),
       count(*) FILTER (may_be AND (len(policies) > 1 OR unrecorded)), count(*) FILTER (NOT may_be)
FROM (SELECT *, list_contains(policies, $policy) AS may_be FROM found)
WHERE system = $system AND door = $door AND topic = $topic AND role = $role
  AND ($subscription = '' OR subscription = $subscription) AND told_us >= $begin AND told_us < $end
"""


def attribute(
    base: duckdb.DuckDBPyConnection, tried: Sequence[Trial], ahead_us: dict[tuple[str, str], int]
) -> None:
    """Make the table `found`: each refused attachment with the policies that may have refused it.

    :param tried: the trials of counts.
    """
    _table(
        base,
        "counted (system text, door text, topic text, policy text)",
        [(each.system, each.door, each.topic, each.policy) for each in tried],
    )
    _table(
        base, "clocks (system text, door text, ahead_us bigint)", [(*arm, us) for arm, us in ahead_us.items()]
    )
    _table(
        base,
        "words (place int, word text, policy text)",
        [(place, *words) for place, words in enumerate(texts())],
    )
    # A refusal without a code may be of any policy on clients of its kind.
    _table(
        base,
        "answering (system text, role text, code text, policy text)",
        [
            (system.name, "producer" if policy == PRODUCERS else "consumer", code, policy)
            for system in systems().values()
            for code, policies in (*system.codes.items(), (None, (PRODUCERS, *OF_CONSUMERS)))
            for policy in policies
        ],
    )
    # Named in the text, other systems' files are not opened; one of them is torn.
    named = ", ".join(f"'{name}'" for name in sorted({each.system for each in tried})) or "''"
    for made in (_REFUSED, _ROWS.format(systems=named), _FOUND):
        base.execute(made)


def whose(base: duckdb.DuckDBPyConnection, given: dict[str, object]) -> tuple[int, int, int]:
    """Refusals of a trial: surely by its policy, perhaps by it, and by others."""
    own, unclear, others = base.execute(_WHOSE, given).fetchone() or (0, 0, 0)
    return own, unclear, others


def _table(base: duckdb.DuckDBPyConnection, columns: str, rows: list[tuple[object, ...]]) -> None:
    base.execute(f"CREATE TEMP TABLE {columns}")
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        base.executemany(f"INSERT INTO {columns.partition(' ')[0]} VALUES ({marks})", rows)
