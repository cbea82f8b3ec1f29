"""Batches of columns out of the plain tuples of the hot path; runs in the log's writer thread only."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from sluicegate.decisions.columns import COLUMNS, OPERATION_NAMES, WINDOW_MS
from sluicegate.decisions.cost import DecidedGate
from sluicegate.decisions.windows import Window
from sluicegate.model import Action, Decision, OperationKind, Reason

Row: TypeAlias = tuple[int, DecidedGate, OperationKind, str, str, str, int, int, Decision | None]
"""now_ns, gate, kind, principal, client, subscription, messages, bytes, decision (None for an allow)."""
Batch: TypeAlias = dict[str, Any]
"""Columns by name: a value for each row, or one for all of them; what is missing is null. `time` (us since
1970) has a value for each row."""

MAX_BATCH_ROWS = 1_024
_BREATH_S = 50e-6
"""Pause between columns. A bare `sleep(0)` gives the interpreter lock up and takes it again before the
event loop has woken, which would hold messages up for the whole batch."""

_ALLOW = str(Action.ALLOW)
_EPOCH = datetime.fromtimestamp(0, UTC)
_NO_REASON = (None, None, None, None, None)


def of_rows(rows: Sequence[Row], wall_offset_ns: int, costs: Mapping[int, int]) -> Batch:
    """Make a batch of single decisions.

    :param rows: at least one, at most MAX_BATCH_ROWS of them.
    :param wall_offset_ns: what to add to a monotonic time to get ns since 1970.
    :param costs: what a decision took in ns, by place in `rows`, where it was timed.
    :raises ValueError, TypeError, AttributeError: if a decision is none that can be written.
    """
    times, gates, kinds, principals, clients, subscriptions, messages, sizes, decisions = zip(
        *rows, strict=True
    )
    _breathe()
    batch = _shared(times, gates, kinds, wall_offset_ns)
    _breathe()
    batch["principal"] = _column(principals)
    batch["client"] = _texts(clients)
    batch["subscription"] = _texts(subscriptions)
    batch["messages"] = _column(messages)
    batch["bytes"] = _column(sizes)
    batch["decisions"], batch["window"] = 1, 0
    if costs:
        batch["decision_cost"] = [costs.get(place) for place in range(len(rows))]
    if decisions.count(None) < len(rows):
        _breathe()
        batch.update(_decision_columns(decisions))
    return batch


def of_windows(windows: Sequence[Window], wall_offset_ns: int) -> Batch:
    """Make a batch of windows of allows.

    :param windows: at least one, at most MAX_BATCH_ROWS of them.
    :param wall_offset_ns: what to add to a monotonic time to get ns since 1970.
    """
    times, gates, kinds, operations, messages, sizes, costs = zip(*windows, strict=True)
    batch = _shared(times, gates, kinds, wall_offset_ns)
    _breathe()
    batch["messages"] = _column(messages)
    batch["bytes"] = _column(sizes)
    batch["decisions"] = _column(operations)
    batch["decision_cost"] = _column([cost or None for cost in costs])
    batch["window"] = WINDOW_MS
    return batch


def mappings(batch: Batch, constants: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """Give the rows of a batch that are not plain allows, by column name.

    :param constants: the columns that are the same for all rows of the log.
    """
    if batch["action"] == _ALLOW:
        return
    columns = {**{column.name: None for column in COLUMNS}, **constants, **batch}
    for place, since_1970_us in enumerate(batch["time"]):
        row = {
            name: values[place] if isinstance(values, list | tuple) else values
            for name, values in columns.items()
        }
        if row["action"] != _ALLOW:
            row["time"] = _EPOCH + timedelta(microseconds=since_1970_us)
            yield row
        if place % 64 == 63:
            _breathe()


def action_of(decision: Decision) -> str:
    """The column `action`: `would_reject` and so on for what was only observed."""
    return f"would_{decision.action}" if decision.observed else str(decision.action)


def _breathe() -> None:
    time.sleep(_BREATH_S)


def _column(values: Sequence[Any]) -> Any:
    """One value if all are the same, as they often are: less to write, and to read again."""
    first = values[0]
    return first if values.count(first) == len(values) else values


def _texts(values: Sequence[str]) -> Any:
    return _column([value or None for value in values])


def _shared(
    times: Sequence[int], gates: Sequence[DecidedGate], kinds: Sequence[OperationKind], wall_offset_ns: int
) -> Batch:
    topics = [gate.topic for gate in gates]
    return {
        "time": [(now_ns + wall_offset_ns) // 1_000 for now_ns in times],
        "topic": _column([topic.full for topic in topics]),
        "namespace": _column([topic.namespace for topic in topics]),
        "policy_version": _column([gate.version for gate in gates]),
        "operation": _column([OPERATION_NAMES[kind] for kind in kinds]),
        "action": _ALLOW,
        "factor": 1.0,
        "delay": 0,
    }


def _decision_columns(decisions: Sequence[Decision | None]) -> Batch:
    """The columns that plugins have a hand in: what has another type than the column's is found here."""
    reasons = [
        _reason(decision.reasons[0]) if decision and decision.reasons else _NO_REASON
        for decision in decisions
    ]
    policies, levels, outcomes, currents, limits = zip(*reasons, strict=True)
    _breathe()
    batch = {
        "policy": _column(policies),
        "level": _column(levels),
        "reason": _column(outcomes),
        "current": _column(currents),
        "limit": _column(limits),
        "action": _column([action_of(d) if d else _ALLOW for d in decisions]),
        "factor": _column([_finite(d.factor) if d else 1.0 for d in decisions]),
        "delay": _column([int(d.delay_ns) if d else 0 for d in decisions]),
        "decision_id": [d.id if d else None for d in decisions],
    }
    if any(d is not None and len(d.reasons) > 1 for d in decisions):
        batch["other_reasons"] = [_other_reasons(d) if d else None for d in decisions]
    return batch


def _reason(reason: Reason) -> tuple[str, str | None, str, float, float]:
    current, limit = float(reason.current), float(reason.limit)
    return str(reason.policy), str(reason.level) or None, str(reason.outcome), current, limit


def _other_reasons(decision: Decision) -> list[dict[str, Any]] | None:
    names = ("policy", "level", "reason", "current", "limit")
    others = [dict(zip(names, _reason(reason), strict=True)) for reason in decision.reasons[1:]]
    return others or None


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError(f"{number!r} is no quota factor")
    return float(number)
