"""The JSON of a delayed-delivery policy: Pulsar's own fields (PIP-315) and the fixed delay (PIP-437)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluicegate.model import PolicyValue
from sluicegate_pulsar.web.http_errors import WebError

FIXED, MAX, ACTIVE, TICK = (
    "fixed_delivery_delay",
    "max_delivery_delay",
    "delayed_delivery_active",
    "delayed_delivery_tick_time",
)
FIELDS = (FIXED, MAX, ACTIVE, TICK)
"""The policies that stand behind the document."""

MAX_BODY = 64 * 1024
_LONG = 2**63 - 1
_DEFAULT_TICK_MS = 1_000
"""Pulsar's own `delayedDeliveryTickTimeMillis`."""
_FIXED_KEY, _MAX_KEY = "fixedDeliveryDelayInMillis", "maxDeliveryDelayInMillis"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The fields that a client sets."""

    native: Mapping[str, Any]
    """What the broker understands of it; fields that are left out are false or 0 there."""
    fixed_ms: int | None
    """The fixed delay; 0 for none, None to inherit it."""

    @property
    def max_ms(self) -> int:
        """The longest delay; 0 for any."""
        return int(self.native.get(_MAX_KEY) or 0)

    def changes(self) -> dict[str, object]:
        """The resulting changes to the store."""
        return {
            FIXED: self.fixed_ms,
            MAX: self.max_ms,
            ACTIVE: bool(self.native.get("active")),
            TICK: int(self.native.get("tickTime") or 0),
        }


def parse(body: bytes) -> Wanted | None:
    """Parse a client's document; None if it is empty, which removes the policy.

    :raises WebError: if it is invalid.
    """
    if not body.strip():
        return None
    try:
        document = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise WebError(400, f"malformed JSON: {error}") from None
    if document is None:
        return None
    if not isinstance(document, dict):
        raise WebError(400, "expected a JSON object such as " + '{"active": true, "tickTime": 1000}')
    native = dict(document)
    # Pulsar replaces the whole document: a longest delay that is left out is 0 there.
    fixed_ms = _milliseconds(_FIXED_KEY, native.pop(_FIXED_KEY, 0))
    for key in (_MAX_KEY, "tickTime"):
        if key in native:
            native[key] = _milliseconds(key, native[key]) or 0
    if not isinstance(native.get("active", False), bool | None):
        raise WebError(400, f"active: expected true or false, got {json.dumps(native['active'])[:100]}")
    return Wanted(native, fixed_ms)


def completed(wanted: Wanted, present: Mapping[str, Any] | None) -> Wanted:
    """Fill in defaults beside a fixed delay: without `active`, delays are on, not off.

    :param present: what the broker has at this level.
    """
    known = present or {}
    defaults = {"active": True, "tickTime": known.get("tickTime") or _DEFAULT_TICK_MS}
    return Wanted({**defaults, **wanted.native}, wanted.fixed_ms)


def with_max(native: Mapping[str, Any], max_ms: int) -> dict[str, Any]:
    """The document with another maximum delay; the broker gets 0 (none) while a delay is fixed."""
    return {**native, _MAX_KEY: max_ms}


def max_of(native: Mapping[str, Any]) -> int:
    """The longest delay that a broker allows, in ms; 0 for any."""
    longest = native.get(_MAX_KEY)
    return longest if isinstance(longest, int) and not isinstance(longest, bool) else 0


def merged(native: Mapping[str, Any] | None, own: Mapping[str, PolicyValue]) -> dict[str, Any] | None:
    """Merge the broker's and the gateway's policies into one document; None if both are empty.

    :param native: the broker's document, if it has one.
    :param own: policies of the gateway, by field.
    """
    if native is None and not any(field in own for field in FIELDS):
        return None
    said: dict[str, Any] = (
        dict(native)
        if native is not None
        else {
            "active": own.get(ACTIVE, True),
            "tickTime": own.get(TICK) or _DEFAULT_TICK_MS,
            _MAX_KEY: 0,
        }
    )
    if MAX in own:
        said[_MAX_KEY] = own[MAX]
    if FIXED in own:
        said[_FIXED_KEY] = own[FIXED]
    return said


def read_native(content: bytes) -> dict[str, Any] | None:
    """A broker's document; None if it has none.

    :raises WebError: if it is something else.
    """
    if not content.strip():
        return None
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = content
    if document is not None and not isinstance(document, dict):
        raise WebError(502, "the broker's answer is no delayed-delivery policy")
    return document


def _milliseconds(key: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LONG:
        raise WebError(400, f"{key}: expected a whole number of milliseconds, got {json.dumps(value)[:100]}")
    if value < 0:
        raise WebError(412, f"{key}: {value} is negative: expected milliseconds, or 0 for none")
    return value


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")
