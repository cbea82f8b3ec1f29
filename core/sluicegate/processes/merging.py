"""One snapshot of each broker out of those of its workers."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

_HIGHEST = frozenset(
    {"topics_known", "overload_level", "event_loop_lag_seconds", "broker_up", "longest_ns"}
    | {"limit", "in_force"}
)
"""Numbers of which the largest stands for all."""
_LOWEST = frozenset({"policy_version", "since_ms", "not_after"})
_IDENTITY = ("plugin", "call", "policy", "level", "name", "broker", "mode", "kind")
"""Fields that tell the rows of a list apart."""


def merged(snapshots: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The snapshots, with those of one broker added up; one that is alone in its broker stays as it is."""
    by_broker: dict[str, list[dict[str, Any]]] = {}
    for snapshot in snapshots:
        by_broker.setdefault(snapshot["broker"], []).append(dict(snapshot))
    return [reduce(_snapshot, of_broker) for of_broker in by_broker.values()]


def _snapshot(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both: dict[str, Any] = _add("", one, other)
    ups = [each for each in (one, other) if each["reachability"]["up"]]
    both["reachability"] = (ups or [one])[0]["reachability"]
    both["tls"] = one["tls"]
    both["held"] = sorted([*one["held"], *other["held"]], key=lambda held: held["since_ms"])[:100]
    return both


def _add(key: str, one: Any, other: Any) -> Any:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return {
            name: _add(name, one[name], other[name]) if name in one and name in other else part[name]
            for part in (other, one)
            for name in part
        }
    if isinstance(one, list) and isinstance(other, list):
        return _rows(key, one, other)
    if isinstance(one, (int, float)) and isinstance(other, (int, float)) and not isinstance(one, bool):
        if key in _HIGHEST:
            return max(one, other)
        return min(one, other) if key in _LOWEST else one + other
    return one


def _rows(key: str, one: list[Any], other: list[Any]) -> list[Any]:
    """Add lists: numbers by their index, rows by what identifies them."""
    if all(isinstance(each, (int, float)) for each in (*one, *other)) and len(one) == len(other):
        return [_add("", *pair) for pair in zip(one, other, strict=True)]
    rows: dict[str, Any] = {}
    for row in (*one, *other):
        identity = repr(_identity(row))
        rows[identity] = _row(rows[identity], row) if identity in rows else row
    return list(rows.values())


def _identity(row: Any) -> Any:
    if isinstance(row, Mapping):
        return [row.get(name) for name in _IDENTITY]
    return row[:-1] if isinstance(row, list) else row


def _row(one: Any, other: Any) -> Any:
    if isinstance(one, list):
        return [*one[:-1], _add("", one[-1], other[-1])]
    return _add("", one, other)
