"""Tracks the usage of all brokers' volumes and derives the verdict on publishing.

This module is sans-IO: times are arguments, wall clock in milliseconds.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sluicegate.config.models import OnUnknown
from sluicegate.features.storage_quota.snapshot import BrokerUsage
from sluicegate.features.storage_quota.volumes import Limits, State, Volume

FUTURE_MS = 60_000
"""How far a broker's clock can be ahead. A later timestamp would count as fresh for too long."""
MAX_BROKERS = 10_000
MAX_VOLUMES = 20_000
"""Most volumes of all brokers together."""
_MAX_EVICTED = 1_000
"""Volumes whose evictions are counted by name; further ones count as `other`."""
_NAMED = 5
"""Most brokers that a text lists."""


@dataclass(frozen=True, slots=True)
class VolumeVerdict:
    """One volume and its verdict."""

    broker: str
    volume: Volume
    limits: Limits
    """The gateway's or the broker's limits, whichever are stricter on this volume."""
    factor: float
    state: State

    def describe(self) -> str:
        """Describe the volume and its usage."""
        volume = self.volume
        where = f"broker {self.broker} volume {volume.name}"
        if not volume.is_credible:
            return f"{where}: {volume.consumed} of {volume.capacity} bytes used is impossible, counts as full"
        text = f"{where}: {volume.consumed} of {volume.capacity} bytes used, hard limit at {self.hard_at:.0f}"
        soft_at = self.limits.soft_at(volume)
        return text if soft_at is None else f"{text}, soft limit at {float(soft_at):.0f}"

    @property
    def hard_at(self) -> float:
        """Bytes in use at which publishing pauses."""
        return float(self.limits.hard_at(self.volume))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on publishing."""

    state: State
    factor: float
    why: str
    volumes: tuple[VolumeVerdict, ...] = ()
    unknown: tuple[str, ...] = ()
    """Expected brokers without a fresh state."""
    known: bool = True
    """False while data is missing, whatever `on_unknown` says."""
    lack_of_data: bool = False
    """True if publishing is restricted only because data is missing."""


@dataclass(slots=True)
class UsageTracker:
    """Keeps the last state of each broker while it is fresh.

    :param expected: brokers that the configuration requires.
    """

    expected: Collection[str] = ()
    states: dict[str, BrokerUsage] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    """Refused states, by reason: `future`, `stale`, `older`, `too_many`."""
    evictions: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """Evicted volumes, by broker and name."""
    seen_ms: dict[str, int] = field(default_factory=dict)
    """When a source last reported a broker."""
    _volumes: int = 0
    """Number of volumes of all brokers."""

    def offer(self, broker: str, usage: BrokerUsage, wall_ms: int, stale_ms: int) -> bool:
        """Accept a broker's state if it is newer than the last one.

        :param stale_ms: age from which a state is refused.
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
        self._keep(broker, usage, wall_ms)
        return True

    def take_over(self, states: Mapping[str, BrokerUsage], seen_ms: Mapping[str, int]) -> None:
        """Know what another tracker knows, and nothing else.

        :param seen_ms: when each broker was last reported.
        """
        for broker in self.states.keys() - states.keys():
            self.forget(broker)
        for broker, usage in states.items():
            self._keep(broker, usage, seen_ms[broker])

    def forget(self, broker: str) -> None:
        """Remove a broker, for instance after its record was deleted from the topic."""
        usage = self.states.pop(broker, None)
        self.seen_ms.pop(broker, None)
        for volume in usage.volumes if usage is not None else ():
            self._evict(broker, volume.name)
        self._volumes -= len(usage.volumes) if usage is not None else 0

    def expire(self, wall_ms: int, stale_ms: int, active: Collection[str] | None, forget_ms: int) -> None:
        """Remove brokers that no longer exist.

        :param active: brokers that are up according to the cluster; None if unknown. A broker that is not
            among them keeps its last state until it is stale.
        :param forget_ms: if `active` is None, how long after its last state a broker is still expected.
        """
        for broker, usage in tuple(self.states.items()):
            if broker in self.expected or not self._is_stale(usage, wall_ms, stale_ms):
                continue
            if active is not None:
                is_removed = broker not in active
            else:
                is_removed = wall_ms - self.seen_ms[broker] > stale_ms + forget_ms
            if is_removed:
                self.forget(broker)

    def unknown(self, wall_ms: int, stale_ms: int, active: Collection[str] | None) -> list[str]:
        """Expected brokers without a fresh state."""
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
        """Derive the verdict for all producers: the lowest factor of any volume of any broker.

        :param limits: the gateway's own limits; limits that a broker reports apply in addition.
        :param active: as for `expire`.
        :param on_unknown: the rule while data is missing.
        :param failed: why the last reading failed, for texts.
        """
        unknown = self.unknown(wall_ms, stale_ms, active)
        is_incomplete = bool(unknown) or not self.states
        counted = self.states if on_unknown == "last" else self._fresh(wall_ms, stale_ms)
        volumes = tuple(
            judge_volume(broker, volume, limits, usage.limits)
            for broker, usage in sorted(counted.items())
            for volume in usage.volumes
        )
        worst = min(volumes, key=lambda judged: (judged.factor, -judged.state), default=None)
        state, factor = (worst.state, worst.factor) if worst is not None else (State.OPEN, 1.0)
        why = worst.describe() if worst is not None else ""
        if is_incomplete:
            missing = _missing(unknown, failed)
            if on_unknown == "pause" or (on_unknown == "last" and not counted):
                return Verdict(State.PAUSE, 0.0, missing, volumes, tuple(unknown), False, factor > 0.0)
            why = f"{missing}; {why}" if why else missing
        return Verdict(state, factor, why, volumes, tuple(unknown), not is_incomplete)

    def unlimited(self) -> tuple[VolumeVerdict, ...]:
        """The verdicts on all known volumes without any limits."""
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

    def _keep(self, broker: str, usage: BrokerUsage, seen_ms: int) -> None:
        last = self.states.get(broker)
        self._evict_missing(broker, last, usage)
        self.states[broker] = usage
        self._volumes += len(usage.volumes) - len(last.volumes if last is not None else ())
        self.seen_ms[broker] = seen_ms

    def _evict_missing(self, broker: str, last: BrokerUsage | None, usage: BrokerUsage) -> None:
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
        # A state can lie in the future after the gateway's own clock was set back.
        return not -FUTURE_MS <= wall_ms - usage.at_ms <= stale_ms


def judge_volume(broker: str, volume: Volume, *limits: Limits) -> VolumeVerdict:
    """Evaluate one volume under all its limits; the lowest factor counts."""
    by_each = [(each.factor(volume), -each.state(volume), each) for each in limits if each]
    if not by_each:
        return VolumeVerdict(broker, volume, Limits(), 1.0, State.OPEN)
    factor, state, chosen = min(by_each, key=lambda each: each[:2])
    return VolumeVerdict(broker, volume, chosen, factor, State(-state))


def _missing(unknown: Collection[str], failed: str) -> str:
    cause = f" ({failed})" if failed else ""
    if not unknown:
        return f"the usage of all volumes is unknown{cause}"
    named = ", ".join(sorted(unknown)[:_NAMED])
    more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
    noun = "broker" if len(unknown) == 1 else "brokers"
    return f"no fresh usage of {noun} {named}{more}{cause}"
