"""Evidence for a service level: how often a limit was kept, and how long operations were held, by month."""

import pyarrow as pa

from sluicegate_reports.jobs.hold_times import KEYS, HoldTimes
from sluicegate_reports.jobs.kept_seconds import KeptSeconds
from sluicegate_reports.model.results import Table

SERVICE_LEVEL = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in KEYS),
        pa.field("seconds", pa.int64()),
        pa.field("kept", pa.float64()),
        pa.field("held", pa.int64()),
        pa.field("held_p50_ms", pa.float64()),
        pa.field("held_p99_ms", pa.float64()),
    ]
)
"""A row for each month, gateway, topic and policy; docs/reports.md says what the columns mean."""
_HEADINGS = {"kept": "kept (share)", "held_p50_ms": "held p50 (ms)", "held_p99_ms": "held p99 (ms)"}
_MOST = 1_000
_NOTHING_HELD = (0, None, None)


def service_level(kept: KeptSeconds, holds: HoldTimes) -> pa.Table:
    """All rows, by month; what was kept least and held longest first."""
    held = holds.by_policy()
    rows = []
    for key in {**kept.by_policy, **held}:
        seconds, of_them = kept.by_policy.get(key, (0, 0))
        share = of_them / seconds if seconds else None
        rows.append((*key, seconds or None, share, *held.get(key, _NOTHING_HELD)))
    rows.sort(key=lambda row: (row[0], 1.0 if row[6] is None else row[6], -(row[9] or 0.0), str(row[1:5])))
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in SERVICE_LEVEL]
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, SERVICE_LEVEL, strict=True)],
        schema=SERVICE_LEVEL,
    )


def shown(level: pa.Table) -> Table | None:
    """The first rows as a table of the report; None without any."""
    if not len(level):
        return None
    rows = tuple(tuple(row.values()) for row in level.slice(0, _MOST).to_pylist())
    columns = tuple(_HEADINGS.get(name, name) for name in level.column_names)
    return Table(columns, rows, "service_level", "Limits kept and holds, by month", total=len(level))
