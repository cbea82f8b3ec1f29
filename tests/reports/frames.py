"""Tiny literal frames, and frames as rows to compare."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sluicegate_reports import observations
from sluicegate_reports.runs import Trial
from sluicegate_reports.transforms import lanes

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
FLOWS = (
    "lane int, source string, client string, at_us bigint, amount bigint, window_ms int, action string, "
    "messages bigint, until_us bigint"
)
Row = Mapping[str, Any]


def at(seconds: float) -> datetime:
    """So many seconds after START."""
    return START + timedelta(seconds=seconds)


def trial(policy: str = "max_publish_rate", limit: float = 10, **changes: Any) -> Trial:
    """A trial of ten seconds on one topic of one proxy."""
    values: dict[str, Any] = {
        "system": "kafka",
        "door": "proxy",
        "phase": "steady",
        "topic": "orders",
        "start": START,
        "end": at(10),
        **changes,
    }
    return Trial(policy, limit=limit, **values)


def flow(at_s: float, amount: int = 1, action: str = "admitted", **changes: Any) -> Row:
    """A flow of lane 0, from the log."""
    row = {"lane": 0, "source": "log", "client": "c1", "window_ms": 0, "until_us": None}
    row["messages"] = amount
    return {**row, "at_us": round(at_s * 1e6), "amount": amount, "action": action, **changes}


def flows(spark: SparkSession, rows: Iterable[Row]) -> DataFrame:
    """Flows as a frame."""
    names = [part.split()[0] for part in FLOWS.split(", ")]
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], FLOWS)


_DECISION: Row = {
    "run": "r1",
    "system": "kafka",
    "door": "proxy",
    "gateway": "main",
    "topic": "orders",
    "subscription": None,
    "client": "c1",
    "operation": "publish",
    "policy": None,
    "action": "allow",
    "delay": 0,
    "bytes": 100,
    "messages": 1,
    "decision_cost": None,
    "decisions": 1,
    "window": 0,
    "decision_id": None,
}
_DECISIONS = (
    "time timestamp, run string, system string, door string, gateway string, topic string, "
    "subscription string, client string, operation string, policy string, action string, delay bigint, "
    "bytes bigint, messages bigint, decision_cost bigint, decisions bigint, window int, decision_id string"
)


def decisions(spark: SparkSession, rows: Iterable[Row]) -> DataFrame:
    """Decisions as a frame, of the columns that transforms use; `at` is in seconds after START."""
    return _frame(spark, _DECISIONS, _DECISION, rows, "time")


_OBSERVED: Row = {
    "run": "r1",
    "system": "kafka",
    "door": "proxy",
    "scenario": "steady",
    "client": "p1",
    "role": "producer",
    "topic": "orders",
    "event": "acknowledged",
    "messages": 1,
    "bytes": 100,
}
_TYPES = {"string": "string", "int64": "bigint", "bool": "boolean", "timestamp[us, tz=UTC]": "timestamp"}
_OBSERVATIONS = ", ".join(f"{column.name} {_TYPES[column.type]}" for column in observations.COLUMNS)


def observed(spark: SparkSession, rows: Iterable[Row]) -> DataFrame:
    """Observations as a frame; `at` is in seconds after START."""
    return _frame(spark, _OBSERVATIONS, _OBSERVED, rows, "time")


def _frame(spark: SparkSession, ddl: str, base: Row, rows: Iterable[Row], time: str) -> DataFrame:
    names = [part.split()[0] for part in ddl.split(", ")]
    filled = [{**base, **row, time: at(row["at"])} for row in rows]
    return spark.createDataFrame([tuple(row.get(name) for name in names) for row in filled], ddl)


def rows_of(frame: DataFrame, *names: str) -> list[tuple[Any, ...]]:
    """Rows of these columns, sorted; all columns if none is named."""
    chosen = frame.select(*names) if names else frame
    return sorted((tuple(row) for row in chosen.collect()), key=lambda row: [str(value) for value in row])


def one(frame: DataFrame) -> dict[str, Any]:
    """The only row."""
    (row,) = frame.collect()
    return row.asDict()


def comes(at_s: float, client: str, event: str = "attached", **changes: Any) -> dict[str, Any]:
    """An observation of a producer that comes, goes or is refused."""
    return {"at": at_s, "client": client, "event": event, **changes}


def tries(spark: SparkSession, *trials: Trial) -> DataFrame:
    """Trials of one family as a frame."""
    return lanes.tries(spark, trials, trials[0].measured.family)
