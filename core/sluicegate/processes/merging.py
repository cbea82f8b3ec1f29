"""One snapshot of each broker out of those of its workers.

Tables say of each number what stands for all workers: their sum, the largest, the smallest, or any of them.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import reduce
from operator import add, itemgetter
from typing import Any, TypeAlias

from sluicegate.model import Source
from sluicegate.runtime.held_samples import SHOWN
from sluicegate.runtime.use import utilization

Snapshot: TypeAlias = Mapping[str, Any]
"""Of a worker, as `Worker.snapshot` makes it."""
How: TypeAlias = Callable[[Any, Any], Any]
"""Makes one value of those of two workers."""


def _first(one: Any, other: Any) -> Any:
    return one


def _largest(one: float | None, other: float | None) -> float | None:
    """The larger of two; one that is not known may be larger than any."""
    return None if one is None or other is None else max(one, other)


def _each(how: How) -> How:
    """By name: what both have, as told; the rest as it is."""
    return lambda one, other: {
        **{name: how(value, other[name]) if name in other else value for name, value in one.items()},
        **{name: value for name, value in other.items() if name not in one},
    }


def _fields(table: Mapping[str, How]) -> How:
    """By name, each by its own rule; of others the first one's."""
    return lambda one, other: {
        **other,
        **{
            name: table.get(name, _first)(value, other[name]) if name in other else value
            for name, value in one.items()
        },
    }


def _pairs(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    return list(map(add, one, other))


def _rows(identity: Callable[[Any], Hashable], how: How) -> How:
    """Rows of a list: those of one identity are one."""

    def merge(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
        rows: dict[Hashable, Any] = {}
        for row in (*one, *other):
            key = identity(row)
            rows[key] = how(rows[key], row) if key in rows else row
        return list(rows.values())

    return merge


def _counted(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    """Rows whose last column counts."""
    return [*one[:-1], one[-1] + other[-1]]


def _held(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    return sorted((*one, *other), key=itemgetter("since_ms"))[:SHOWN]


def _reachability(one: Snapshot, other: Snapshot) -> dict[str, Any]:
    """That of one that reaches the broker, if any does; what operators should know from all."""
    known = other if other["up"] and not one["up"] else one
    return {**known, "notes": list(dict.fromkeys([*one.get("notes", ()), *other.get("notes", ())]))}


def _uses(one: Snapshot, other: Snapshot) -> dict[str, Any]:
    """Use of limits, by policy."""
    return {
        name: _used_by(name)(one[name], other[name]) if name in one and name in other else part[name]
        for part in (one, other)
        for name in part
    }


def _used_by(policy: str) -> How:
    if policy == "max_connections":
        return _connections
    return _MOST_USED if policy in _SEEN_BY_ALL else _SUMMED_USE


def _connections(one: Snapshot, other: Snapshot) -> dict[str, Any]:
    """By default each worker has as many as its file descriptors allow; what the entry says is for all."""
    how = _SUMMED_USE if one["source"] == Source.FILE.label else _OWN_LIMIT
    both: dict[str, Any] = how(one, other)
    return both


def _topic(one: Snapshot, other: Snapshot) -> dict[str, Any]:
    both: dict[str, Any] = _TOPIC(one, other)
    return {**both, "utilization": utilization(both["use"])}


def _metric(one: Snapshot, other: Snapshot) -> dict[str, Any]:
    """A plugin's metric. Gauges mostly tell what is the same for all workers, or how long something took."""
    if (one["kind"], one["labels"]) != (other["kind"], other["labels"]):
        return dict(one)
    how = _counted if one["kind"] == "counter" else lambda row, more: max(row, more, key=itemgetter(1))
    return {**one, "values": _rows(lambda row: tuple(row[0]), how)(one["values"], other["values"])}


GAUGES: Mapping[str, How] = {
    "connections": add,
    "buffered_bytes": add,
    "held_bytes": add,
    "buffer_budget_bytes": add,
    # Workers shed load each by its own memory: what is shown is the fullest one's.
    "overload_level": max,
    "overload_memory_bytes": max,
    "overload_memory_limit_bytes": max,
    "gates": add,
    # Most topics are known to all workers.
    "topics": max,
    "policy_version": min,
    "event_loop_lag_seconds": max,
    "broker_up": max,
}
"""The gauges of a worker."""
_SEEN_BY_ALL = frozenset({"max_subscriptions_per_topic", "max_unacked_messages_per_consumer"})
"""Policies whose use each worker knows whole, or of which the consumer that uses most counts."""
_LIMIT: Mapping[str, How] = {"limit": min, "in_force": min}
_SUMMED_USE = _fields({**_LIMIT, "used_1s": add, "used_10s": add})
"""Where the subscription that uses most counts, the sum is the most that it can be."""
_MOST_USED = _fields({**_LIMIT, "used_1s": max, "used_10s": max})
_OWN_LIMIT = _fields({"limit": add, "in_force": add, "used_1s": add, "used_10s": add})
"""Each worker has one of its own."""
_CLIENT = _fields(
    {
        "published_messages": add,
        "published_bytes": add,
        "dispatched_messages": add,
        "dispatched_bytes": add,
        "refused": add,
        "delayed": add,
        "held": add,
        "use": _uses,
    }
)
_TOPIC = _fields(
    {
        "counters": _pairs,
        "sizes": _pairs,
        "batches": _pairs,
        "holds": _each(_pairs),
        "violations": _rows(lambda row: tuple(row[:-1]), _counted),
        "producers": add,
        "consumers": _each(add),
        "use": _uses,
        "held": add,
        "named": _each(add),
    }
)
_TLS = _fields({"successful": min, "renewals": max})
"""All workers read the same files."""
_CALLS = _fields({"sampled": add, "sampled_ns": add, "longest_ns": max})
_ROLLOUT = _fields({"asked": add, "would": add, "did": add})
_BUDGETS = _fields(
    {
        "up": min,
        "age_seconds": _largest,
        "lost_seconds": max,
        "calls": add,
        "errors": add,
        "members": max,
        "limits": max,
        "other_policies": _largest,
    }
)
_SNAPSHOT: Mapping[str, How] = {
    "counters": _each(add),
    "gauges": _fields(GAUGES),
    "tls": _rows(itemgetter("section"), _TLS),
    "reachability": _reachability,
    "front": _each(add),
    "plugin_faults": _each(add),
    "plugin_calls": _rows(itemgetter("plugin", "call"), _CALLS),
    "loop_holds": _each(_pairs),
    "decision_log": _each(add),
    "topics": _each(_topic),
    "use": _uses,
    "principals": _each(_CLIENT),
    "clients": _each(_CLIENT),
    "held": _held,
    "rollouts": _rows(itemgetter("policy", "level", "name", "broker", "mode"), _ROLLOUT),
    "plugin_metrics": _rows(itemgetter("name"), _metric),
    "log_lines_left_out": add,
    "budgets": _BUDGETS,
}
_NAMED = ("topics", "principals", "clients")
_NOTHING: Mapping[str, Any] = {"producers": 0, "consumers": {}, "use": {}, "utilization": {}, "held": 0}
_MOST_ENDED = 1_000
"""Names whose totals are kept from processes that have ended."""
PARTS = frozenset({"broker", "system", *_SNAPSHOT})
"""The parts of a snapshot."""
_two: How = _fields(_SNAPSHOT)


def merged(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """The snapshots, with those of one broker as one; one that is alone in its broker stays as it is."""
    by_broker: dict[str, list[Snapshot]] = {}
    for snapshot in snapshots:
        by_broker.setdefault(snapshot["broker"], []).append(snapshot)
    return [reduce(_two, of_broker) for of_broker in by_broker.values()]


def what_it_counted(snapshot: Snapshot, before: Snapshot | None = None) -> Snapshot:
    """What stays of the snapshot of a process that has ended: its totals, as none may ever fall.

    :param before: what stays of the processes before it.
    """
    kept = {
        **snapshot,
        "gauges": {},
        "tls": [],
        "reachability": {"up": False, "since_ms": None, "reason": "", "notes": []},
        "decision_log": {**snapshot["decision_log"], "queued": 0},
        "use": {},
        **{part: _ended(snapshot[part]) for part in _NAMED},
        "held": [],
        "plugin_metrics": [each for each in snapshot["plugin_metrics"] if each["kind"] == "counter"],
    }
    if budgets := snapshot.get("budgets"):
        kept["budgets"] = {name: budgets[name] for name in ("calls", "errors")}
    if before is None:
        return kept
    both: Snapshot = _two(before, kept)
    return {**both, **{part: dict(list(both[part].items())[-_MOST_ENDED:]) for part in _NAMED}}


def _ended(samples: Snapshot) -> dict[str, Any]:
    """Samples with what they counted, and nothing that is so now."""
    return {
        name: {**sample, **{key: empty for key, empty in _NOTHING.items() if key in sample}}
        for name, sample in samples.items()
    }
