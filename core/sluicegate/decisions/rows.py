"""Converts the tuples of the hot path to batches of columns, in the log's writer thread."""

import math
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from sluicegate.decisions.allow_windows import Window
from sluicegate.decisions.columns import COLUMNS, OPERATION_NAMES, WINDOW_MS
from sluicegate.decisions.cost import DecidedGate
from sluicegate.decisions.interned import Ids, Interned
from sluicegate.model import Action, Decision, OperationKind, Reason

Row: TypeAlias = tuple[int, DecidedGate, OperationKind, str, str, str, int, int, Decision | None]
"""now_ns, gate, kind, principal, client, subscription, messages, bytes, decision (None for an allow)."""
Batch: TypeAlias = dict[str, Any]
"""A line of a spool: columns by name, with one value for each row or one for all; missing columns are null.

Columns of a table of `interned` contain ids. `time` is monotonic in ns, `offset` converts it to ns since
1970, and `costs` has index and duration in ns of the rows that were timed."""

MAX_BATCH_ROWS = 1_024
_YIELD_S = 50e-6
"""Pause between columns that lets the event loop run. With `sleep(0)` this thread would get the interpreter
lock back before the event loop wakes up, and block messages for the whole batch."""

_ALLOW = str(Action.ALLOW)
_EPOCH = datetime.fromtimestamp(0, UTC)
_NO_REASON = (None, None, None, None, None)


def of_rows(rows: Sequence[Row], wall_offset_ns: int, costs: Mapping[int, int], interned: Interned) -> Batch:
    """Make a batch of single decisions.

    :param rows: 1 to MAX_BATCH_ROWS rows.
    :param wall_offset_ns: offset from monotonic time to ns since 1970.
    :param costs: durations of timed decisions in ns, by index in `rows`.
    :param interned: the id tables of the spool.
    :raises ValueError, TypeError, AttributeError, OverflowError: if a decision has invalid values.
    """
    times, gates, kinds, principals, clients, subscriptions, messages, sizes, decisions = zip(
        *rows, strict=True
    )
    _yield_interpreter()
    batch = _shared(times, gates, kinds, wall_offset_ns, interned)
    _yield_interpreter()
    batch["principal"] = interned.ids("principal", principals)
    batch["client"] = interned.ids("client", clients)
    batch["subscription"] = interned.ids("subscription", subscriptions)
    batch["messages"] = _numbers(messages)
    batch["bytes"] = _numbers(sizes)
    batch["decisions"], batch["window"] = 1, 0
    if costs:
        batch["costs"] = list(costs.items())
    if decisions.count(None) < len(rows):
        _yield_interpreter()
        batch.update(_decision_columns(decisions, interned))
    return {**batch, **interned.additions()}


def of_windows(windows: Sequence[Window], wall_offset_ns: int, interned: Interned) -> Batch:
    """Make a batch of windows of allows.

    :param windows: 1 to MAX_BATCH_ROWS windows.
    :param wall_offset_ns: offset from monotonic time to ns since 1970.
    :param interned: the id tables of the spool.
    :raises TypeError, OverflowError: if a window has invalid values.
    """
    times, gates, kinds, operations, messages, sizes, costs = zip(*windows, strict=True)
    batch = _shared(times, gates, kinds, wall_offset_ns, interned)
    _yield_interpreter()
    batch["messages"] = _numbers(messages)
    batch["bytes"] = _numbers(sizes)
    batch["decisions"] = _numbers(operations)
    batch["costs"] = [(index, cost) for index, cost in enumerate(costs) if cost]
    batch["window"] = WINDOW_MS
    return {**batch, **interned.additions()}


def mappings(
    rows: Iterable[Row], wall_offset_ns: int, constants: Mapping[str, str | int]
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows that are not plain allows, as values by column name.

    :param rows: rows as for `of_rows`.
    :param wall_offset_ns: offset from monotonic time to ns since 1970.
    :param constants: columns with the same value in all rows of the log.
    """
    empty = {**{column.name: None for column in COLUMNS}, **constants}
    for index, row in enumerate(rows):
        decision = row[-1]
        if decision is not None and action_of(decision) != _ALLOW:
            yield {**empty, **_mapping(row, decision, wall_offset_ns)}
        if index % 64 == 63:
            _yield_interpreter()


def action_of(decision: Decision) -> str:
    """The value of the column `action`, with the prefix `would_` for observed decisions."""
    return f"would_{decision.action}" if decision.observed else str(decision.action)


def _yield_interpreter() -> None:
    time.sleep(_YIELD_S)


def _column(values: Sequence[Any]) -> Any:
    """Return a single value if all are equal, which is frequent and saves space and time."""
    first = values[0]
    return first if values[-1] == first and values.count(first) == len(values) else values


def _numbers(values: Sequence[int]) -> "int | array[int]":
    """Return a single integer if all are equal, or an array.

    :raises TypeError, OverflowError: if a value is not an integer of 64 bits.
    """
    packed = array("q", values)
    return packed[0] if packed.count(packed[0]) == len(packed) else packed


def _shared(
    times: Sequence[int],
    gates: Sequence[DecidedGate],
    kinds: Sequence[OperationKind],
    wall_offset_ns: int,
    interned: Interned,
) -> Batch:
    one_kind = kinds.count(kinds[0]) == len(kinds)
    operations = [OPERATION_NAMES[kind] for kind in (kinds[:1] if one_kind else kinds)]
    return {
        "offset": wall_offset_ns,
        "time": array("q", times),
        "topic": _topics(gates, interned),
        "operation": interned.ids("operation", operations),
        "action": interned.ids("action", (_ALLOW,)),
        "factor": 1.0,
        "delay": 0,
    }


def _topics(gates: Sequence[DecidedGate], interned: Interned) -> Ids:
    # A batch has many rows of few gates, so each gate is converted once.
    distinct = list(set(gates))
    entries = [(gate.topic.full, gate.topic.namespace, gate.version) for gate in distinct]
    return interned.ids_of("topic", dict(zip(distinct, entries, strict=True)), gates)


def _decision_columns(decisions: Sequence[Decision | None], interned: Interned) -> Batch:
    """The columns with values from plugins, which may have wrong types; raises as `of_rows` does."""
    reasons = [
        _reason(decision.reasons[0]) if decision and decision.reasons else _NO_REASON
        for decision in decisions
    ]
    _yield_interpreter()
    batch = {
        "policy": interned.ids("policy", [reason[:3] for reason in reasons]),
        "current": _column([reason[3] for reason in reasons]),
        "limit": _column([reason[4] for reason in reasons]),
        "action": interned.ids("action", [action_of(d) if d else _ALLOW for d in decisions]),
        "factor": _column([_finite(d.factor) if d else 1.0 for d in decisions]),
        "delay": _numbers([int(d.delay_ns) if d else 0 for d in decisions]),
        "decision_id": [d.id if d else None for d in decisions],
    }
    if any(d is not None and len(d.reasons) > 1 for d in decisions):
        batch["other_reasons"] = [_other_reasons(d) if d else None for d in decisions]
    return batch


def _mapping(row: Row, decision: Decision, wall_offset_ns: int) -> Batch:
    now_ns, gate, kind, principal, client, subscription, messages, nbytes, _ = row
    names = ("policy", "level", "reason", "current", "limit")
    reason = _reason(decision.reasons[0]) if decision.reasons else _NO_REASON
    return {
        "time": _EPOCH + timedelta(microseconds=(now_ns + wall_offset_ns) // 1_000),
        "principal": principal,
        "client": client or None,
        "namespace": gate.topic.namespace,
        "topic": gate.topic.full,
        "subscription": subscription or None,
        "operation": OPERATION_NAMES[kind],
        "action": action_of(decision),
        **dict(zip(names, reason, strict=True)),
        "factor": float(decision.factor),
        "delay": int(decision.delay_ns),
        "bytes": nbytes,
        "messages": messages,
        "policy_version": gate.version,
        "decision_id": decision.id,
        "decisions": 1,
        "window": 0,
        "other_reasons": _other_reasons(decision),
    }


def _reason(reason: Reason) -> tuple[str, str | None, str, float, float]:
    current, limit = float(reason.current), float(reason.limit)
    return str(reason.policy), str(reason.level) or None, str(reason.outcome), current, limit


def _other_reasons(decision: Decision) -> list[dict[str, Any]] | None:
    names = ("policy", "level", "reason", "current", "limit")
    others = [dict(zip(names, _reason(reason), strict=True)) for reason in decision.reasons[1:]]
    return others or None


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError(f"{number!r} is not a quota factor")
    return float(number)
