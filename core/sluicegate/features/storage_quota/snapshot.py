"""Snapshots of a broker's volumes, which brokers and gateways exchange over a compacted topic.

The format is that of Strimzi's proposal 035; `volume-usage.schema.json` in this folder describes it. The
reader accepts unknown keys and the older name of `ConsumedBytes`. The writer follows the format exactly.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from sluicegate.features.storage_quota.volumes import NO_LIMITS, Limit, Limits, LimitType, Volume

MAX_BYTES = 1024 * 1024
"""Largest snapshot in bytes; ten thousand volumes need less."""
MAX_NAME = 1_000
"""Most characters of an id or a name, as these appear in metrics and errors."""
_OLDER_NAMES = {"ConsumedSpace": LimitType.CONSUMED_BYTES}
_NO_LIMIT = Limit(LimitType.MIN_FREE_BYTES, 0)
"""Written if there is no limit, because the format requires one: it is reached when the volume is full."""


class SnapshotError(Exception):
    """The data is not a snapshot; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class BrokerUsage:
    """The usage of one broker's volumes at one time."""

    volumes: tuple[Volume, ...]
    at_ms: int
    """Time of the measurement, wall clock in milliseconds since 1970."""
    limits: Limits = NO_LIMITS
    """The broker's own limits from its snapshot; none if the gateway measured the usage."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The usage that one broker reports about itself."""

    broker_id: str
    usage: BrokerUsage


def read_snapshot(value: bytes, key: str | None = None) -> Snapshot:
    """Parse a record's value.

    :param key: the record's key, which must be the same broker; None if unknown.
    :raises SnapshotError: if the value does not follow the format.
    """
    snapshot = _object(_parse(value), "a snapshot")
    broker_id = _text(snapshot, "brokerId")
    if key is not None and key != broker_id:
        raise SnapshotError(f"brokerId {broker_id!r} does not match the key {key!r}")
    volumes = snapshot.get("volumes")
    if not isinstance(volumes, list):
        raise SnapshotError(f"volumes {_short(volumes)}, expected a list")
    limits = Limits(_limit(snapshot, "hardLimit"), _limit(snapshot, "softLimit"))
    usage = BrokerUsage(tuple(_volume(each) for each in volumes), _time(snapshot), limits)
    return Snapshot(broker_id, usage)


def write_snapshot(snapshot: Snapshot) -> bytes:
    """Encode a snapshot as the value of a record, whose key is the broker's id.

    Of several limits of a kind, the one that is closest on the volume with the least space is written. A
    share of the capacity is rounded up to whole percent, which is stricter.
    """
    usage = snapshot.usage
    hard, soft = usage.limits.deciding(usage.volumes)
    at = datetime.fromtimestamp(usage.at_ms / 1000, UTC)
    content = {
        "brokerId": snapshot.broker_id,
        "snapshotAt": at.isoformat(timespec="milliseconds" if usage.at_ms % 1000 else "seconds").replace(
            "+00:00", "Z"
        ),
        "hardLimit": _written(hard or _NO_LIMIT),
        "softLimit": _written(soft or hard or _NO_LIMIT),
        "volumes": [
            {"volumeName": each.name, "capacity": each.capacity, "consumed": each.consumed}
            for each in usage.volumes
        ],
    }
    return json.dumps(content, separators=(",", ":")).encode()


def _parse(value: bytes) -> object:
    if len(value) > MAX_BYTES:
        raise SnapshotError(f"a snapshot of {len(value)} bytes, expected at most {MAX_BYTES}")
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise SnapshotError(f"not JSON: {error}") from None


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise SnapshotError(f"{what} is {_short(value)}, expected an object")
    return value


def _text(source: Mapping[str, Any], name: str) -> str:
    value = source.get(name)
    if isinstance(value, str) and value:
        if len(value) > MAX_NAME:
            raise SnapshotError(f"{name} of {len(value)} characters, expected at most {MAX_NAME}")
        return value
    if isinstance(value, int) and not isinstance(value, bool):  # a broker's id as a number
        return str(value)
    raise SnapshotError(f"{name} is {_short(value)}, expected text")


def _time(source: Mapping[str, Any]) -> int:
    text = _text(source, "snapshotAt")
    try:
        at = datetime.fromisoformat(text)
        return round((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise SnapshotError(
            f"snapshotAt is {text[:80]!r}, expected a time such as 2022-04-07T13:00:00Z"
        ) from None


def _limit(source: Mapping[str, Any], name: str) -> tuple[Limit, ...]:
    """One limit, or none if the snapshot has no type for it."""
    limit = _object(source.get(name), name)
    kind = limit.get("type")
    if kind is None:
        return ()
    level = _whole(limit.get("level", 0), f"{name}.level")
    try:
        limit_type = _OLDER_NAMES.get(kind) or LimitType(kind)
    except (ValueError, TypeError):
        known = ", ".join(LimitType)
        raise SnapshotError(f"{name}.type is {_short(kind)}, expected one of {known}") from None
    if limit_type is not LimitType.MIN_FREE_PERCENTAGE:
        return (Limit(limit_type, level),)
    if level > 100:
        raise SnapshotError(f"{name}.level is {level}, expected a percentage of 0 to 100")
    return (Limit(limit_type, Fraction(level, 100)),)


def _volume(value: object) -> Volume:
    volume = _object(value, "a volume")
    capacity, consumed = (_whole(volume.get(name), name) for name in ("capacity", "consumed"))
    return Volume(_text(volume, "volumeName"), capacity, consumed)


def _whole(value: object, what: str) -> int:
    """Parse a non-negative integer; `5.0` is valid too."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise SnapshotError(f"{what} is {_short(value)}, expected a whole number of 0 or more")
    return value


def _written(limit: Limit) -> dict[str, str | int]:
    level = limit.level * 100 if limit.type is LimitType.MIN_FREE_PERCENTAGE else limit.level
    return {"type": str(limit.type), "level": math.ceil(level)}


def _short(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return "missing" if value is None else repr(value)[:80]
