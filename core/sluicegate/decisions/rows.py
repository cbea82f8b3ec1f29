"""Record batches out of the plain tuples of the hot path; runs in the log's writer thread only."""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate.decisions.cost import DecidedGate
from sluicegate.decisions.schema import OPERATION_NAMES, SCHEMA, WINDOW_MS
from sluicegate.decisions.windows import Window
from sluicegate.model import Action, Decision, OperationKind, Reason

Row: TypeAlias = tuple[int, DecidedGate, OperationKind, str, str, str, int, int, Decision | None]
"""now_ns, gate, kind, principal, client, subscription, messages, bytes, decision (None for an allow)."""

MAX_BATCH_ROWS = 1_024
_BREATH_S = 50e-6
"""Pause between columns. A bare `sleep(0)` gives the interpreter lock up and takes it again before the
event loop has woken, which would hold messages up for the whole batch."""

_ALLOW = str(Action.ALLOW)
_DECISION_COLUMNS = (
    "policy",
    "level",
    "reason",
    "current",
    "limit",
    "decision_id",
    "other_reasons",
)
_NO_REASON = (None, None, None, None, None)


class BatchBuilder:
    """Builds record batches of the decision schema.

    :param constants: the columns that are the same for all rows of one log: run, system, door, gateway.
    """

    def __init__(self, constants: Mapping[str, str]) -> None:
        self._constants = {
            name: pa.array(repeat(value, MAX_BATCH_ROWS), pa.string(), size=MAX_BATCH_ROWS)
            for name, value in constants.items()
        }
        self._same = {
            "action": pa.array(repeat(_ALLOW, MAX_BATCH_ROWS), pa.string(), size=MAX_BATCH_ROWS),
            "factor": pa.repeat(pa.scalar(1.0, pa.float64()), MAX_BATCH_ROWS),
            "delay": pa.repeat(pa.scalar(0, pa.int64()), MAX_BATCH_ROWS),
            "decisions": pa.repeat(pa.scalar(1, pa.int64()), MAX_BATCH_ROWS),
            "window": pa.repeat(pa.scalar(0, pa.int32()), MAX_BATCH_ROWS),
        }
        self._window_length = pa.repeat(pa.scalar(WINDOW_MS, pa.int32()), MAX_BATCH_ROWS)
        self._nulls = {field.name: pa.nulls(MAX_BATCH_ROWS, field.type) for field in SCHEMA if field.nullable}

    def of_rows(self, rows: Sequence[Row], wall_offset_ns: int, costs: Mapping[int, int]) -> pa.RecordBatch:
        """Build a batch of single decisions.

        :param rows: at most MAX_BATCH_ROWS of them.
        :param wall_offset_ns: what to add to a monotonic time to get ns since 1970.
        :param costs: what a decision took in ns, by place in `rows`, where it was timed.
        """
        columns = self._shared(len(rows), _DECISION_COLUMNS)
        times, gates, kinds, principals, clients, subscriptions, messages, sizes, decisions = zip(
            *rows, strict=True
        )
        _breathe()
        columns["time"] = _times(times, wall_offset_ns)
        columns.update(_gate_columns(gates, kinds))
        _breathe()
        columns["principal"] = pa.array(principals, pa.string())
        columns["client"] = _texts(clients)
        columns["subscription"] = _texts(subscriptions)
        _breathe()
        columns["messages"] = pa.array(messages, pa.int64())
        columns["bytes"] = pa.array(sizes, pa.int64())
        columns["decision_cost"] = self._sampled(len(rows), costs)
        if any(decision is not None for decision in decisions):
            columns.update(_decision_columns(decisions))
        return _batch(columns)

    def of_windows(self, windows: Sequence[Window], wall_offset_ns: int) -> pa.RecordBatch:
        """Build a batch of windows of allows.

        :param windows: at most MAX_BATCH_ROWS of them.
        :param wall_offset_ns: what to add to a monotonic time to get ns since 1970.
        """
        nobody = ("principal", "client", "subscription")
        columns = self._shared(len(windows), (*_DECISION_COLUMNS, *nobody))
        times, gates, kinds, operations, messages, sizes, costs = zip(*windows, strict=True)
        columns["time"] = _times(times, wall_offset_ns)
        columns.update(_gate_columns(gates, kinds))
        _breathe()
        columns["messages"] = pa.array(messages, pa.int64())
        columns["bytes"] = pa.array(sizes, pa.int64())
        columns["decisions"] = pa.array(operations, pa.int64())
        columns["decision_cost"] = pa.array([cost or None for cost in costs], pa.int64())
        columns["window"] = self._window_length.slice(0, len(windows))
        return _batch(columns)

    def _sampled(self, count: int, costs: Mapping[int, int]) -> pa.Array:
        if not costs:
            return self._nulls["decision_cost"].slice(0, count)
        return pa.array([costs.get(place) for place in range(count)], pa.int64())

    def _shared(self, count: int, empty: Sequence[str]) -> dict[str, pa.Array]:
        columns = {name: array.slice(0, count) for name, array in self._constants.items()}
        columns.update((name, array.slice(0, count)) for name, array in self._same.items())
        columns.update((name, self._nulls[name].slice(0, count)) for name in empty)
        return columns


def mappings(batch: pa.RecordBatch) -> Iterator[Mapping[str, Any]]:
    """Give the rows of a batch that are not plain allows, by column name."""
    kept = batch.filter(pc.not_equal(batch.column("action"), _ALLOW))
    for start in range(0, kept.num_rows, 64):
        yield from kept.slice(start, 64).to_pylist()
        _breathe()


def action_of(decision: Decision) -> str:
    """The column `action`: `would_reject` and so on for what was only observed."""
    return f"would_{decision.action}" if decision.observed else decision.action


def _breathe() -> None:
    time.sleep(_BREATH_S)


def _batch(columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _times(monotonic_ns: Sequence[int], wall_offset_ns: int) -> pa.Array:
    since_1970 = pc.add(pa.array(monotonic_ns, pa.int64()), pa.scalar(wall_offset_ns, pa.int64()))
    return pc.divide(since_1970, pa.scalar(1_000, pa.int64())).cast(SCHEMA.field("time").type)


def _texts(values: Sequence[str]) -> pa.Array:
    return pa.array([value or None for value in values], pa.string())


def _gate_columns(gates: Sequence[DecidedGate], kinds: Sequence[OperationKind]) -> dict[str, pa.Array]:
    topics = [gate.topic for gate in gates]
    return {
        "topic": pa.array([topic.full for topic in topics], pa.string()),
        "namespace": pa.array([topic.namespace for topic in topics], pa.string()),
        "policy_version": pa.array([gate.version for gate in gates], pa.int64()),
        "operation": pa.array([OPERATION_NAMES[kind] for kind in kinds], pa.string()),
    }


def _decision_columns(decisions: Sequence[Decision | None]) -> dict[str, pa.Array]:
    reasons = [
        _reason(decision.reasons[0]) if decision and decision.reasons else _NO_REASON
        for decision in decisions
    ]
    policies, levels, outcomes, currents, limits = zip(*reasons, strict=True)
    _breathe()
    return {
        "policy": pa.array(policies, pa.string()),
        "level": pa.array(levels, pa.string()),
        "reason": pa.array(outcomes, pa.string()),
        "current": pa.array(currents, pa.float64()),
        "limit": pa.array(limits, pa.float64()),
        "action": pa.array([action_of(d) if d else _ALLOW for d in decisions], pa.string()),
        "factor": pa.array([d.factor if d else 1.0 for d in decisions], pa.float64()),
        "delay": pa.array([d.delay_ns if d else 0 for d in decisions], pa.int64()),
        "decision_id": pa.array([d.id if d else None for d in decisions], pa.string()),
        "other_reasons": _other_reasons(decisions),
    }


def _reason(reason: Reason) -> tuple[str | None, str | None, str | None, float | None, float | None]:
    return reason.policy, reason.level or None, reason.outcome, reason.current, reason.limit


def _other_reasons(decisions: Sequence[Decision | None]) -> pa.Array:
    names = ("policy", "level", "reason", "current", "limit")
    return pa.array(
        [
            [dict(zip(names, _reason(reason), strict=True)) for reason in decision.reasons[1:]]
            if decision and len(decision.reasons) > 1
            else None
            for decision in decisions
        ],
        SCHEMA.field("other_reasons").type,
    )
