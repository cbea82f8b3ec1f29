"""Volumes and the limits on them: how much of the quota a volume leaves, 0.0 to 1.0.

Limits of different types meet in one measure: the bytes in use at which they are reached on that volume. The
rules are those of Strimzi's proposal of storage quotas (035) and of its plug-in's linear ramp (024).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from fractions import Fraction


class LimitType(StrEnum):
    """What a limit looks at, named as in snapshots."""

    CONSUMED_BYTES = "ConsumedBytes"
    """Reached when so many bytes are in use."""
    MIN_FREE_BYTES = "MinFreeBytes"
    """Reached when no more bytes than these are free."""
    MIN_FREE_PERCENTAGE = "MinFreePercentage"
    """Reached when no more than this share of the capacity is free."""


class State(IntEnum):
    """What holds for clients that publish; a higher one is stricter."""

    OPEN = 0
    THROTTLE = 1
    PAUSE = 2


@dataclass(frozen=True, slots=True)
class Volume:
    """One disk of a broker, as it was found."""

    name: str
    """Unique within its broker: a device, a mount point or a log directory."""
    capacity: int
    """Bytes in all."""
    consumed: int
    """Bytes that can no longer be written to."""

    @property
    def free(self) -> int:
        """Bytes that can still be written; negative if more is in use than there is."""
        return self.capacity - self.consumed

    @property
    def is_credible(self) -> bool:
        """False if the figures cannot be true; such a volume counts as full."""
        return self.capacity > 0 and 0 <= self.consumed <= self.capacity


@dataclass(frozen=True, slots=True)
class Limit:
    """A level of one type.

    :param level: bytes; for MIN_FREE_PERCENTAGE a share of the capacity, 0 to 1. No float, as 29 % of 100
        bytes are 29.
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
    """What holds for the volumes of one broker: hard limits pause, soft ones begin to throttle.

    Of several limits of one kind the strictest one counts, for each volume. Without a hard limit publishing
    pauses when the volume is full; without a soft one it goes on unrestricted until then.
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
        """True at the limit and beyond it, and for figures that cannot be true."""
        return not volume.is_credible or volume.consumed >= self.hard_at(volume)

    def breaches_soft(self, volume: Volume) -> bool:
        """True beyond the limit; a volume that is exactly at it is not restricted yet."""
        soft = self.soft_at(volume)
        return self.breaches_hard(volume) or (soft is not None and volume.consumed > soft)

    def is_inverted(self, volume: Volume) -> bool:
        """True if the soft limit comes after the hard one on this volume, so that it has no effect."""
        soft = self.soft_at(volume)
        return soft is not None and soft > self.hard_at(volume)

    def factor(self, volume: Volume) -> float:
        """How much of the quota this volume leaves: 1.0 up to the soft limit, 0.0 from the hard limit on.

        Between them it falls linearly, (hard - consumed) / (hard - soft) in bytes of this volume, so it does
        not jump at the soft limit. Where the soft limit comes after the hard one, the hard one holds alone.
        """
        if self.breaches_hard(volume):
            return 0.0
        if not self.breaches_soft(volume):
            return 1.0
        hard, soft = self.hard_at(volume), self.soft_at(volume)
        assert soft is not None  # noqa: S101 - it is breached, and not the hard one
        return (hard - volume.consumed) / (hard - soft)

    def state(self, volume: Volume) -> State:
        """What this volume alone would ask for."""
        if self.breaches_hard(volume):
            return State.PAUSE
        return State.THROTTLE if self.breaches_soft(volume) else State.OPEN

    def deciding(self, volumes: Sequence[Volume]) -> tuple[Limit | None, Limit | None]:
        """The limits that decide on the volume with least room: a snapshot holds one of each kind."""
        if not volumes:
            return next(iter(self.hard), None), next(iter(self.soft), None)
        worst = min(volumes, key=lambda volume: (self.factor(volume), self.hard_at(volume) - volume.consumed))
        return _strictest(self.hard, worst), _strictest(self.soft, worst)


NO_LIMITS = Limits()


def _strictest(limits: Iterable[Limit], volume: Volume) -> Limit | None:
    return min(limits, key=lambda limit: limit.consumed_at(volume), default=None)
