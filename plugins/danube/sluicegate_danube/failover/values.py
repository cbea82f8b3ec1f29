"""What the values of a Danube cluster's keys say. A value of no known shape raises `ValueShapeError`."""

import json
from dataclasses import dataclass
from typing import Any

from sluicegate_danube.failover.keys import MAX_BROKER

_MOST_BYTES = 1_048_576
"""A larger value is not read: a load report names each topic of its broker, and that is all that grows."""
_UNLOAD, _REBALANCE = "unload", "rebalance"
_PERCENT = {"CPU", "Memory"}


class ValueShapeError(Exception):
    """A value does not fit its key."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What an unassigned entry asks of the load manager."""

    without: int | None = None
    """A broker that is not to have the topic."""
    target: int | None = None
    """A broker that had better have it."""


def address_of_broker(value: bytes) -> str:
    """A registration: where clients reach the broker."""
    said = _read(value)
    address = said.get("broker_addr") if isinstance(said, dict) else said
    if not isinstance(address, str) or not address:
        raise ValueShapeError("expected a broker's address, or an object with `broker_addr`")
    return address


def takes_topics(value: bytes) -> bool:
    """A broker's state: whether it may be given topics."""
    said = _read(value)
    mode = said.get("mode") if isinstance(said, dict) else None
    if not isinstance(mode, str):
        raise ValueShapeError("expected an object with `mode`")
    return mode == "active"


def usage_of_broker(value: bytes) -> float:
    """A load report: CPU and memory in use, the mean of its percentages; 0 if it has none."""
    said = _read(value)
    usages = said.get("resources_usage", []) if isinstance(said, dict) else None
    if not isinstance(usages, list) or not all(isinstance(usage, dict) for usage in usages):
        raise ValueShapeError("expected a load report")
    shares = [usage.get("usage") for usage in usages if usage.get("resource") in _PERCENT]
    if not all(isinstance(share, int | float) and 0 <= share <= 1e6 for share in shares):
        raise ValueShapeError("expected percentages in `resources_usage`")
    return sum(shares) / len(shares) if shares else 0.0


def wish_of_topic(value: bytes) -> Wish:
    """An unassigned entry: which broker it asks for, if any."""
    said = _read(value) if value else None
    if said is None:
        return Wish()
    reason = said.get("reason") if isinstance(said, dict) else None
    if reason not in (_UNLOAD, _REBALANCE):
        raise ValueShapeError(f"expected null, or an object with `reason` {_UNLOAD!r} or {_REBALANCE!r}")
    return Wish(
        _broker(said.get("from_broker")), _broker(said.get("to_broker")) if reason == _REBALANCE else None
    )


def wish_value(wish: Wish) -> bytes:
    """The unassigned entry that asks for this, in Danube's words."""
    if wish.target is None:
        said = {"reason": _UNLOAD, "from_broker": wish.without}
    else:
        said = {"reason": _REBALANCE, "from_broker": wish.without, "to_broker": wish.target}
    return json.dumps(said).encode()


def leader_id(value: bytes) -> int:
    """The broker that the leader key names."""
    leader = _broker(_read(value))
    if leader is None:
        raise ValueShapeError("expected the leader's id")
    return leader


def _broker(said: object) -> int | None:
    if said is None:
        return None
    if not isinstance(said, int) or isinstance(said, bool) or not 0 <= said <= MAX_BROKER:
        raise ValueShapeError(f"expected an id from 0 to {MAX_BROKER}, got {said!r}")
    return said


def _read(value: bytes) -> Any:
    if len(value) > _MOST_BYTES:
        raise ValueShapeError(f"expected at most {_MOST_BYTES} bytes, got {len(value)}")
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueShapeError(f"expected JSON, got {value[:40]!r}") from None
