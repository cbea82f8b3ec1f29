"""Decodes the values of a Danube cluster's keys. A malformed value raises `ValueShapeError`."""

import json
from dataclasses import dataclass
from typing import Any

from sluicegate_danube.failover.keys import MAX_BROKER

_MOST_BYTES = 1_048_576
"""Larger values are refused. Only load reports grow, as they list each topic of their broker."""
_UNLOAD, _REBALANCE = "unload", "rebalance"
_PERCENT = {"CPU", "Memory"}


class ValueShapeError(Exception):
    """A value does not have the shape that its key requires."""


@dataclass(frozen=True, slots=True)
class PlacementHint:
    """The placement that an unassigned entry requests from the load manager."""

    excluded: int | None = None
    """A broker that must not get the topic."""
    target: int | None = None
    """The preferred broker."""


def address_of_broker(value: bytes) -> str:
    """Decode a registration: the address of the broker for clients."""
    document = _read(value)
    address = document.get("broker_addr") if isinstance(document, dict) else document
    if not isinstance(address, str) or not address:
        raise ValueShapeError("expected a broker's address, or an object with `broker_addr`")
    return address


def takes_topics(value: bytes) -> bool:
    """Decode a broker's state: whether topics can be assigned to it."""
    document = _read(value)
    mode = document.get("mode") if isinstance(document, dict) else None
    if not isinstance(mode, str):
        raise ValueShapeError("expected an object with `mode`")
    return mode == "active"


def usage_of_broker(value: bytes) -> float:
    """Decode a load report: the mean of its CPU and memory percentages; 0 if it has none."""
    document = _read(value)
    usages = document.get("resources_usage", []) if isinstance(document, dict) else None
    if not isinstance(usages, list) or not all(isinstance(usage, dict) for usage in usages):
        raise ValueShapeError("expected a load report")
    shares = [usage.get("usage") for usage in usages if usage.get("resource") in _PERCENT]
    if not all(isinstance(share, int | float) and 0 <= share <= 1e6 for share in shares):
        raise ValueShapeError("expected percentages in `resources_usage`")
    return sum(shares) / len(shares) if shares else 0.0


def hint_of_topic(value: bytes) -> PlacementHint:
    """Decode an unassigned entry."""
    document = _read(value) if value else None
    if document is None:
        return PlacementHint()
    reason = document.get("reason") if isinstance(document, dict) else None
    if reason not in (_UNLOAD, _REBALANCE):
        raise ValueShapeError(f"expected null, or an object with `reason` {_UNLOAD!r} or {_REBALANCE!r}")
    return PlacementHint(
        _broker(document.get("from_broker")),
        _broker(document.get("to_broker")) if reason == _REBALANCE else None,
    )


def hint_value(hint: PlacementHint) -> bytes:
    """Encode an unassigned entry in Danube's format."""
    if hint.target is None:
        document = {"reason": _UNLOAD, "from_broker": hint.excluded}
    else:
        document = {"reason": _REBALANCE, "from_broker": hint.excluded, "to_broker": hint.target}
    return json.dumps(document).encode()


def leader_id(value: bytes) -> int:
    """The broker that the leader key names."""
    leader = _broker(_read(value))
    if leader is None:
        raise ValueShapeError("expected the leader's id")
    return leader


def _broker(number: object) -> int | None:
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_BROKER:
        raise ValueShapeError(f"expected an id from 0 to {MAX_BROKER}, got {number!r}")
    return number


def _read(value: bytes) -> Any:
    if len(value) > _MOST_BYTES:
        raise ValueShapeError(f"expected at most {_MOST_BYTES} bytes, got {len(value)}")
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueShapeError(f"expected JSON, got {value[:40]!r}") from None
