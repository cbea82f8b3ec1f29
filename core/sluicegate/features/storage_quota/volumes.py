"""Volumes and their limits, from which the remaining share of the quota follows, 0.0 to 1.0.

Limits of different types are compared by the bytes in use at which they are reached on a volume. The rules
are those of Strimzi's proposal for storage quotas (035) and of its plug-in's linear ramp (024).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from fractions import Fraction


class LimitType(StrEnum):
    """The quantity that a limit refers to, named as in snapshots."""

    CONSUMED_BYTES = "ConsumedBytes"
    """Reached when this many bytes are in use."""
    MIN_FREE_BYTES = "MinFreeBytes"
    """Reached when no more than this many bytes are free."""
    MIN_FREE_PERCENTAGE = "MinFreePercentage"
    """Reached when no more than this share of the capacity is free."""


class State(IntEnum):
    """The state of publishing; a higher value is stricter."""

    OPEN = 0
    THROTTLE = 1
    PAUSE = 2


@dataclass(frozen=True, slots=True)
class Volume:
    """The usage of one disk of a broker."""

    name: str
    """Unique within its broker: a device, a mount point or a log directory."""
    capacity: int
    """Total bytes."""
    consumed: int
    """Bytes that are not available for writing."""

    @property
    def free(self) -> int:
        """Bytes that can still be written; negative if usage exceeds the capacity."""
        return self.capacity - self.consumed

    @property
    def is_credible(self) -> bool:
        """False if the values are impossible; such a volume counts as full."""
        return self.capacity > 0 and 0 <= self.consumed <= self.capacity


@dataclass(frozen=True, slots=True)
class Limit:
    """A level of one type.

    :param level: bytes; for MIN_FREE_PERCENTAGE a share of the capacity, 0 to 1. Not a float, because 29 % of
        100 bytes must be 29.
    """

    type: LimitType
    level: Fraction | int

    def consumed_at(self, volume: Volume) -> int:
        """The bytes in use at which a volume reaches this limit; negative if it is smaller than the limit."""
        if self.type is LimitType.CONSUMED_BYTES:
            return int(self.level)
        if self.type is LimitType.MIN_FREE_BYTES:
            return volume.capacity - int(self.level)
        free = volume.capacity * self.level.numerator // self.level.denominator
        return volume.capacity - free

    def __str__(self) -> str:
        if self.type is LimitType.MIN_FREE_PERCENTAGE:
            return f"{self.type} {float(self.level * 100):g}"
        return f"{self.type} {int(self.level)}"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits on the volumes of one broker: hard limits pause publishing, soft limits throttle it.

    On each volume the strictest of several limits of one kind counts. Without a hard limit publishing pauses
    when the volume is full; without a soft one it is unrestricted until then.
    """

    hard: tuple[Limit, ...] = ()
    soft: tuple[Limit, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.hard or self.soft)

    def hard_at(self, volume: Volume) -> int:
        """The bytes in use at which publishing pauses."""
        return min((limit.consumed_at(volume) for limit in self.hard), default=volume.capacity)

    def soft_at(self, volume: Volume) -> int | None:
        """The bytes in use above which publishing is throttled; None if there is no soft limit."""
        return min((limit.consumed_at(volume) for limit in self.soft), default=None)

    def breaches_hard(self, volume: Volume) -> bool:
        """True at and beyond the limit, and for impossible values."""
        return not volume.is_credible or volume.consumed >= self.hard_at(volume)

    def breaches_soft(self, volume: Volume) -> bool:
        """True beyond the limit; a volume exactly at it is not restricted."""
        soft = self.soft_at(volume)
        return self.breaches_hard(volume) or (soft is not None and volume.consumed > soft)

    def is_inverted(self, volume: Volume) -> bool:
        """True if the soft limit is beyond the hard one on this volume, and so has no effect."""
        soft = self.soft_at(volume)
        return soft is not None and soft > self.hard_at(volume)

    def factor(self, volume: Volume) -> float:
        """The remaining share of the quota: 1.0 up to the soft limit, 0.0 from the hard limit.

        In between it falls linearly, (hard - consumed) / (hard - soft) in bytes of this volume, without a
        jump at the soft limit. A soft limit beyond the hard one has no effect.
        """
        if self.breaches_hard(volume):
            return 0.0
        if not self.breaches_soft(volume):
            return 1.0
        hard, soft = self.hard_at(volume), self.soft_at(volume)
        assert soft is not None  # noqa: S101 - the soft limit is breached, and the hard one is not
        return (hard - volume.consumed) / (hard - soft)

    def state(self, volume: Volume) -> State:
        """The state that this volume alone requires."""
        if self.breaches_hard(volume):
            return State.PAUSE
        return State.THROTTLE if self.breaches_soft(volume) else State.OPEN

    def deciding(self, volumes: Sequence[Volume]) -> tuple[Limit | None, Limit | None]:
        """The closest limits on the volume with the least space; a snapshot has only one of each kind."""
        if not volumes:
            return next(iter(self.hard), None), next(iter(self.soft), None)
        worst = min(volumes, key=lambda volume: (self.factor(volume), self.hard_at(volume) - volume.consumed))
        return _strictest(self.hard, worst), _strictest(self.soft, worst)


NO_LIMITS = Limits()


def _strictest(limits: Iterable[Limit], volume: Volume) -> Limit | None:
    return min(limits, key=lambda limit: limit.consumed_at(volume), default=None)
