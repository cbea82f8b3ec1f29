"""Tiny literal frames, and frames as rows to compare."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from sluicegate.decisions.schema import SCHEMA
from sluicegate_reports.jobs import other_figures
from sluicegate_reports.model import observations
from sluicegate_reports.model.runs import Trial
from sluicegate_reports.transforms import packing
from sluicegate_reports.transforms.flows import ACTIONS, Flows
from sluicegate_reports.transforms.here import Here, packed_here
from sluicegate_reports.transforms.packed import NEVER, TOPIC_COLUMNS, Text, Topic
from sluicegate_reports.transforms.parts import Figures, Rows
from sluicegate_reports.transforms.slots import Slots

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
LENGTH_US = 10_000_000
"""Of the trials."""
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
    row = {"lane": 0, "source": "log", "client": "c1", "window_ms": 0, "until_us": NEVER}
    row |= {"messages": amount, "at_us": round(at_s * 1e6), "since_us": NEVER}
    return {**row, "amount": amount, "action": action, **changes}


def seen(at_s: float, amount: int = 1, action: str = "admitted", **changes: Any) -> Row:
    """Likewise, from clients."""
    return flow(at_s, amount, action, **{"source": "clients", **changes})


def flows(rows: Iterable[Row]) -> dict[tuple[int, str], Flows]:
    """Flows by lane and source."""
    by_lane: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        by_lane.setdefault((row["lane"], row["source"]), []).append(row)
    return {key: _flows(own) for key, own in by_lane.items()}


def _flows(rows: list[Row]) -> Flows:
    names = sorted({row["client"] for row in rows if row["client"] is not None})
    codes = [-1 if row["client"] is None else names.index(row["client"]) for row in rows]
    numbers = [{**row, "action": ACTIONS.index(row["action"])} for row in rows]
    columns = {name: np.array([row[name] for row in numbers], np.int64) for name in Flows._fields[1:]}
    return Flows(Text(np.array(codes, np.int32), names), **columns)


def slots(
    rows: Iterable[Row], width_us: int = 100_000, length_us: int = LENGTH_US
) -> dict[tuple[int, str], Slots]:
    """The slots of these flows, by lane and source."""
    by_lane = {}
    for (lane, source), own in flows(rows).items():
        by_lane[lane, source] = Slots(source, length_us, width_us)
        by_lane[lane, source].add(own)
    return by_lane


def topics(decisions: Iterable[Row] = (), seen: Iterable[Row] = (), slice_us: int = 0) -> list[Topic]:
    """What the jobs see of these rows; in slices of this length, if it is not 0."""
    tables = {
        "decisions": _table(SCHEMA, _DECISION, decisions),
        "observations": _table(observations.SCHEMA, _OBSERVED, seen),
    }
    topic_keys = {
        tuple(row[name] for name in TOPIC_COLUMNS) for rows in tables.values() for row in rows.to_pylist()
    }
    cuts = dict.fromkeys(topic_keys, slice_us) if slice_us else {}
    sources = {log: packing.Source(tables=(rows,)) for log, rows in tables.items()}
    return list(packed_here(sources, cuts=cuts).topics)


def _table(schema: pa.Schema, base: Row, rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in _filled(base, rows)], schema=schema)


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


def _filled(base: Row, rows: Iterable[Row]) -> list[Row]:
    return [{**base, **row, "time": at(row["at"])} for row in rows]


def comes(at_s: float, client: str, event: str = "attached", **changes: Any) -> dict[str, Any]:
    """An observation of a producer that comes, goes or is refused."""
    return {"at": at_s, "client": client, "event": event, **changes}


def of_others(
    trials: Sequence[Trial], seen: Iterable[Row], log: Iterable[Row] | None = None
) -> dict[str, Rows]:
    """What is found of trials that are not of rates: the same of whole topics and of slices of a second."""
    rows = (list(log or ()), list(seen))
    whole, cut = (
        _of_others(topics(*rows, slice_us), trials, has_log=log is not None) for slice_us in (0, 1_000_000)
    )
    assert cut == whole
    return whole


def _of_others(of_run: Sequence[Topic], trials: Sequence[Trial], *, has_log: bool) -> dict[str, Rows]:
    figures = other_figures.of_others(trials, {}, transits(of_run, trials), has_log=has_log)
    return Here(of_run).measured(Figures((), list(figures)))


def transits(of_run: Sequence[Topic], trials: Sequence[Trial]) -> Rows:
    """How long messages took that nothing keeps back, by arm."""
    figures = Figures((), list(other_figures.of_transit(trials)))
    return Here(of_run).measured(figures).get("transits", [])
