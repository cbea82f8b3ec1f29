"""The known usage of all brokers' volumes, and the verdict on publishing that follows from it.

Nothing here knows a clock or does input or output: times come in as arguments, wall clock in milliseconds.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sluicegate.config.models import OnUnknown
from sluicegate.features.storage_quota.snapshot import BrokerUsage
from sluicegate.features.storage_quota.volumes import Limits, State, Volume

FUTURE_MS = 60_000
"""How far a broker's clock may be ahead; what is dated later would count as fresh for too long."""
MAX_BROKERS = 10_000
MAX_VOLUMES = 20_000
"""Of all brokers together."""
_MAX_EVICTED = 1_000
"""Volumes whose evictions are counted by name; those of more count for `other`."""
_NAMED = 5
"""Brokers that a text names; the others are counted."""


@dataclass(frozen=True, slots=True)
class VolumeVerdict:
    """One volume and what it asks for."""

    broker: str
    volume: Volume
    limits: Limits
    """The stricter ones on this volume, where there are the gate's own and the broker's."""
    factor: float
    state: State

    def describe(self) -> str:
        """The volume and its figures, for people."""
        volume = self.volume
        where = f"broker {self.broker} volume {volume.name}"
        if not volume.is_credible:
            return (
                f"{where}: {volume.consumed} of {volume.capacity} bytes used cannot be, so it counts as full"
            )
        told = f"{where}: {volume.consumed} of {volume.capacity} bytes used, hard limit at {self.hard_at:.0f}"
        soft_at = self.limits.soft_at(volume)
        return told if soft_at is None else f"{told}, soft limit at {float(soft_at):.0f}"

    @property
    def hard_at(self) -> float:
        """Bytes in use at which publishing pauses."""
        return float(self.limits.hard_at(self.volume))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What holds now."""

    state: State
    factor: float
    why: str
    volumes: tuple[VolumeVerdict, ...] = ()
    unknown: tuple[str, ...] = ()
    """Brokers that should be known and are not."""
    known: bool = True
    """False while data is missing, whatever is done about that."""
    lack_of_data: bool = False
    """True if publishing is restricted only because data is missing."""


@dataclass(slots=True)
class UsageTracker:
    """The last state of each broker, for as long as it is fresh.

    :param expected: brokers that must be known, from the configuration.
    """

    expected: Collection[str] = ()
    states: dict[str, BrokerUsage] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    """States that were not taken, by reason: `future`, `stale`, `older`, `too_many`."""
    evictions: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """Volumes that were forgotten, by broker and name."""
    _seen_ms: dict[str, int] = field(default_factory=dict)
    """When a broker was last part of what a source told."""
    _volumes: int = 0
    """Of all brokers."""

    def offer(self, broker: str, usage: BrokerUsage, wall_ms: int, stale_ms: int) -> bool:
        """Take over a broker's state if it is news; of several for one broker the latest counts.

        :param stale_ms: older states are not taken.
        :return: False if it was refused, which is counted by reason.
        """
        last = self.states.get(broker)
        reason = ""
        if usage.at_ms > wall_ms + FUTURE_MS:
            reason = "future"
        elif wall_ms - usage.at_ms > stale_ms:
            reason = "stale"
        elif last is not None and usage.at_ms < last.at_ms <= wall_ms + FUTURE_MS:
            reason = "older"
        elif not self._has_room(last, usage):
            reason = "too_many"
        if reason:
            self.refused[reason] += 1
            return False
        self._note_gone(broker, last, usage)
        self.states[broker] = usage
        self._volumes += len(usage.volumes) - len(last.volumes if last is not None else ())
        self._seen_ms[broker] = wall_ms
        return True

    def forget(self, broker: str) -> None:
        """Drop a broker, as when its record was deleted from the topic."""
        usage = self.states.pop(broker, None)
        self._seen_ms.pop(broker, None)
        for volume in usage.volumes if usage is not None else ():
            self._evict(broker, volume.name)
        self._volumes -= len(usage.volumes) if usage is not None else 0

    def expire(self, wall_ms: int, stale_ms: int, active: Collection[str] | None, forget_ms: int) -> None:
        """Forget brokers that are gone for good.

        :param active: brokers that the cluster says are up; None if that is unknown. A broker that is not
            among them keeps its last state until it is stale.
        :param forget_ms: where that is unknown, how long after its last state a broker goes on counting as
            one that should be known.
        """
        for broker, usage in tuple(self.states.items()):
            if broker in self.expected or not self._is_stale(usage, wall_ms, stale_ms):
                continue
            if active is not None:
                gone = broker not in active
            else:
                gone = wall_ms - self._seen_ms[broker] > stale_ms + forget_ms
            if gone:
                self.forget(broker)

    def unknown(self, wall_ms: int, stale_ms: int, active: Collection[str] | None) -> list[str]:
        """Brokers that should be known and of which there is no fresh state."""
        known = {*self.expected, *(self.states if active is None else active)}
        return sorted(
            broker
            for broker in known
            if (usage := self.states.get(broker)) is None or self._is_stale(usage, wall_ms, stale_ms)
        )

    def judge(
        self,
        limits: Limits,
        wall_ms: int,
        *,
        stale_ms: int,
        active: Collection[str] | None,
        on_unknown: OnUnknown,
        failed: str = "",
    ) -> Verdict:
        """Say what holds for everyone who publishes: the least that any volume of any broker leaves.

        :param limits: the gate's own; the limits that a broker states hold in addition.
        :param active: as for `expire`.
        :param on_unknown: what holds while data is missing.
        :param failed: why the source could not be read at last, for texts.
        """
        unknown = self.unknown(wall_ms, stale_ms, active)
        lacking = bool(unknown) or not self.states
        counted = self.states if on_unknown == "last" else self._fresh(wall_ms, stale_ms)
        volumes = tuple(
            judge_volume(broker, volume, limits, usage.limits)
            for broker, usage in sorted(counted.items())
            for volume in usage.volumes
        )
        worst = min(volumes, key=lambda judged: (judged.factor, -judged.state), default=None)
        state, factor = (worst.state, worst.factor) if worst is not None else (State.OPEN, 1.0)
        why = worst.describe() if worst is not None else ""
        if lacking:
            missing = _missing(unknown, failed)
            if on_unknown == "pause" or (on_unknown == "last" and not counted):
                return Verdict(State.PAUSE, 0.0, missing, volumes, tuple(unknown), False, factor > 0.0)
            why = f"{missing}; {why}" if why else missing
        return Verdict(state, factor, why, volumes, tuple(unknown), not lacking)

    def unlimited(self) -> tuple[VolumeVerdict, ...]:
        """All volumes that are known, by no limit at all."""
        return tuple(
            judge_volume(broker, volume)
            for broker, usage in sorted(self.states.items())
            for volume in usage.volumes
        )

    def _fresh(self, wall_ms: int, stale_ms: int) -> Mapping[str, BrokerUsage]:
        return {
            broker: usage
            for broker, usage in self.states.items()
            if not self._is_stale(usage, wall_ms, stale_ms)
        }

    def _note_gone(self, broker: str, last: BrokerUsage | None, usage: BrokerUsage) -> None:
        names = {volume.name for volume in usage.volumes}
        for volume in last.volumes if last is not None else ():
            if volume.name not in names:
                self._evict(broker, volume.name)

    def _evict(self, *volume: str) -> None:
        known = volume in self.evictions or len(self.evictions) < _MAX_EVICTED
        self.evictions[volume if known else ("other", "other")] += 1

    def _has_room(self, last: BrokerUsage | None, usage: BrokerUsage) -> bool:
        more = len(usage.volumes) - len(last.volumes if last is not None else ())
        if more > 0 and self._volumes + more > MAX_VOLUMES:
            return False
        return last is not None or len(self.states) < MAX_BROKERS

    @staticmethod
    def _is_stale(usage: BrokerUsage, wall_ms: int, stale_ms: int) -> bool:
        # A state may turn out to be of the future when the gate's own clock is set back.
        return not -FUTURE_MS <= wall_ms - usage.at_ms <= stale_ms


def judge_volume(broker: str, volume: Volume, *limits: Limits) -> VolumeVerdict:
    """Judge one volume by all limits that hold for it; the least factor counts."""
    by_each = [(each.factor(volume), -each.state(volume), each) for each in limits if each]
    if not by_each:
        return VolumeVerdict(broker, volume, Limits(), 1.0, State.OPEN)
    factor, state, chosen = min(by_each, key=lambda found: found[:2])
    return VolumeVerdict(broker, volume, chosen, factor, State(-state))


def _missing(unknown: Collection[str], failed: str) -> str:
    cause = f" ({failed})" if failed else ""
    if not unknown:
        return f"nothing is known of any volume{cause}"
    named = ", ".join(sorted(unknown)[:_NAMED])
    more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
    noun = "broker" if len(unknown) == 1 else "brokers"
    return f"nothing fresh is known of {noun} {named}{more}{cause}"
