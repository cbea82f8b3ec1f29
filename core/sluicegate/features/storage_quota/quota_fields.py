"""The policy fields of storage quotas, and the limits derived from them."""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Annotated, ClassVar, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from sluicegate.config.asking import only_with
from sluicegate.config.models import Contradiction, PolicyModel
from sluicegate.config.units import Duration, StorageSize, refuse
from sluicegate.features.storage_quota.volumes import Limit, Limits, LimitType
from sluicegate.model import EffectivePolicies

POLICY = "storage_quota"
"""Name of the factor, and of the policy in `observe_only`, `on_unknown` and decisions."""
STALE_AFTER = "storage_stale_after"
DEFAULT_STALE_MS = 300_000
"""The default of Strimzi's plug-in: `throttle.factor.validity.duration` of PT5M."""
_SEED = "client.quota.callback.static.storage"
_TYPES = {
    "consumed_bytes": LimitType.CONSUMED_BYTES,
    "min_free_bytes": LimitType.MIN_FREE_BYTES,
    "min_free_ratio": LimitType.MIN_FREE_PERCENTAGE,
}
LIMITS = frozenset(f"storage_{kind}_{name}" for kind in ("hard", "soft") for name in _TYPES)
"""The fields that limit volumes."""


def parse_ratio(value: object) -> float:
    """Parse a share of the capacity.

    :param value: 0.0 to 1.0, or text in percent: `5%`.
    :raises PydanticCustomError: for anything else, including `5` (five times the capacity) and `1` (all of
        it), which probably mean percent.
    """
    wrong = refuse(f"{value!r} is not a share of the capacity", "write '5%', or a number from 0.0 to 1.0")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise wrong
    if isinstance(value, int) and value:
        raise refuse(
            f"{value!r} as a share of the capacity is {value * 100} %", f"for {value} % write '{value}%'"
        )
    text = str(value).strip()
    try:
        number = Decimal(text.removesuffix("%").rstrip()) / (100 if text.endswith("%") else 1)
    except InvalidOperation:
        raise wrong from None
    if not number.is_finite() or not 0 <= number <= 1:
        raise wrong
    return float(number)


Ratio: TypeAlias = Annotated[
    float,
    BeforeValidator(parse_ratio),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": 1},
                {"type": "string", "pattern": r"^\s*([0-9]{1,2}(\.[0-9]{1,9})?|100(\.0{1,9})?) ?%\s*$"},
            ],
            "x-unit": "share of the capacity",
        }
    ),
]
"""A share of the capacity: `0.05`, `5%`."""


class StoragePolicies(PolicyModel):
    """Limits on the volumes of a broker's nodes; each volume of each node is evaluated separately."""

    aliases: ClassVar[Mapping[str, str]] = {
        f"{_SEED}.hard": "storage_hard_consumed_bytes",
        f"{_SEED}.soft": "storage_soft_consumed_bytes",
        f"{_SEED}.hard.min-free-bytes": "storage_hard_min_free_bytes",
        f"{_SEED}.soft.min-free-bytes": "storage_soft_min_free_bytes",
        f"{_SEED}.hard.min-free-percent": "storage_hard_min_free_ratio",
        f"{_SEED}.soft.min-free-percent": "storage_soft_min_free_ratio",
    }
    on_unknown_policies: ClassVar[frozenset[str]] = frozenset({POLICY})
    parameters: ClassVar[frozenset[str]] = LIMITS | {STALE_AFTER}
    broker_only: ClassVar[frozenset[str]] = parameters | {POLICY}
    defaults: ClassVar[Mapping[str, int | float | str | bool]] = {
        POLICY: True,
        STALE_AFTER: DEFAULT_STALE_MS,
    }

    storage_quota: bool | None = Field(default=None, strict=True)
    """False disables storage quotas and keeps their limits. They are enabled if there is a limit, here or in
    the snapshots that are read."""
    storage_hard_consumed_bytes: StorageSize | None = None
    """Publishing pauses once this many bytes of a volume are in use; 0 for no limit."""
    storage_hard_min_free_bytes: StorageSize | None = None
    """Publishing pauses once at most this many bytes of a volume are free; 0 for no limit."""
    storage_hard_min_free_ratio: Ratio | None = None
    """Publishing pauses once no more than this share of a volume is free, 0.0 to 1.0 or '5%'; 0 for no
    limit."""
    storage_soft_consumed_bytes: StorageSize | None = None
    """Above this many used bytes publishing slows down until it pauses at the hard limit; 0 for no limit."""
    storage_soft_min_free_bytes: StorageSize | None = None
    """Below this many free bytes publishing slows down until it pauses at the hard limit; 0 for no limit."""
    storage_soft_min_free_ratio: Ratio | None = None
    """Below this free share of a volume publishing slows down, until it pauses at the hard limit; 0.0 to 1.0
    or '15%'; 0 for no limit."""
    storage_stale_after: Duration | None = Field(default=None, gt=0)
    """How long the measured usage of a volume is valid; 5min if unset, and at least two intervals of the
    source."""

    @classmethod
    @only_with(LIMITS)
    def contradictions(cls, values: Mapping[str, int | float | str | bool]) -> Iterable[Contradiction]:
        """Find soft limits that would be reached after the hard limit of their type."""
        for name in _TYPES:
            if problem := _inverted(name, values.get):
                yield Contradiction(f"storage_soft_{name}", problem, _REMEDIES[name])


_REMEDIES = {
    "consumed_bytes": "a soft limit must be reached first: make it smaller than the hard one",
    "min_free_bytes": "a soft limit must be reached first: make it larger than the hard one",
    "min_free_ratio": "a soft limit must be reached first: make it larger than the hard one",
}


def limits_of(policies: EffectivePolicies) -> Limits:
    """The limits that policies set; 0 means no limit."""
    return Limits(_limits(policies, "hard"), _limits(policies, "soft"))


def problem_with(policies: EffectivePolicies) -> str:
    """A conflict between limits; empty if there is none.

    File and store are merged field by field, so each can be valid by itself. Limits of different types can
    only be compared for a volume, so they are not checked here.
    """
    return next((problem for name in _TYPES if (problem := _inverted(name, policies.values.get))), "")


def _limits(policies: EffectivePolicies, kind: str) -> tuple[Limit, ...]:
    levels = ((limit_type, policies.number(f"storage_{kind}_{name}")) for name, limit_type in _TYPES.items())
    return tuple(Limit(limit_type, _exact(level)) for limit_type, level in levels if level)


def _exact(level: float) -> Fraction:
    """The number as written: 0.29 instead of the nearest binary fraction."""
    return Fraction(Decimal(str(level)))


def _inverted(name: str, value: Callable[[str], object]) -> str:
    soft, hard = value(f"storage_soft_{name}"), value(f"storage_hard_{name}")
    if not (isinstance(soft, int | float) and isinstance(hard, int | float) and soft and hard):
        return ""
    is_wrong = soft > hard if name == "consumed_bytes" else soft < hard
    return f"storage_soft_{name} {soft} would be reached after storage_hard_{name} {hard}" if is_wrong else ""
