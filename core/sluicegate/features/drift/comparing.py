"""Compares a broker's own settings with the policies in force, target by target.

A target is the broker, a namespace or a topic for which either side sets something. Both sides have levels,
so both are merged: a topic's policy meets the limit that the broker has for all topics.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Any, Final, TypeAlias

from sluicegate.broker import BaseDriver
from sluicegate.engine.hierarchy import DISABLED_BY_ZERO, Resolver
from sluicegate.model import (
    EffectivePolicies,
    Level,
    PolicyLayer,
    PolicySet,
    PolicyValue,
    Setting,
    Source,
    TopicName,
)
from sluicegate.model.own_limits import OwnSetting

FIXED_DELAY: Final = "fixed_delivery_delay"
MAX_DELAY: Final = "max_delivery_delay"
ACTIVE: Final = "delayed_delivery_active"
QUOTA_OF_EACH: Final = {
    "messages": "principal_publish_quota",
    "bytes": "principal_publish_quota_bytes",
}
"""What a principal may publish, by the key of an entry in `quotas`."""
_WITH_FIXED_DELAY = frozenset({ACTIVE, "max_timestamp_ahead"})
"""Fields that do something only where there is a fixed delay."""
_DELAYS_OF_BROKERS = _WITH_FIXED_DELAY | {MAX_DELAY}
"""Settings of brokers that a fixed delay of the gateway meets."""
_NOT_COMPARED = frozenset({"delayed_delivery_tick_time"})

Target: TypeAlias = tuple[Level, str]


class Kind(StrEnum):
    """How two values differ."""

    STRICTER = "stricter"
    """The gateway admits what the broker refuses or holds."""
    LOOSER = "looser"
    """The gateway refuses what the broker admits."""
    UNSET = "unset"
    """The broker has a limit for which the gateway has no policy."""
    EQUAL = "equal"


@dataclass(frozen=True, slots=True)
class Side:
    """A value on one side."""

    value: PolicyValue | None
    """In base units; None if there is none."""
    location: str
    """Where it was set: `gateway.yaml:12`, `topic config max.message.bytes`; empty if nowhere."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What became of one field at one target."""

    kind: Kind
    level: Level
    name: str
    """Namespace or topic, exact or a pattern; empty at the broker level."""
    field: str
    gateway: Side
    broker: Side
    own: OwnSetting
    """What the broker's value was read from."""
    principal: str = ""
    """The only principal for which it holds; empty if it holds for all."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the comparison needs of a broker's entry."""

    name_of: Callable[[str], TopicName]
    """Parses a topic's name."""
    rule_of_names: Callable[[Level, str], str]
    """Says what names look like if the broker cannot have this one; else empty."""
    quotas: Mapping[str, tuple[int, int]]
    """Messages and bytes per second of single principals."""

    @classmethod
    def of(cls, driver: BaseDriver, config: Any) -> "Entry":
        """That of a configured broker."""
        quotas = {each.principal: (each.messages, each.bytes) for each in config.quotas}
        return cls(lambda topic: driver.name_of(topic, config), config.rule_of_names, quotas)


def compare(own: Iterable[OwnSetting], gateway: Resolver, entry: Entry) -> list[Difference]:
    """Compare, most serious first; equal values are among the differences.

    :param own: the broker's settings; those without a policy are left out.
    :param gateway: the policies in force.
    """
    compared = [each for at_target in by_target(own, gateway, entry) for each in at_target]
    order = list(Kind)
    return sorted(compared, key=lambda each: (order.index(each.kind), each.level, each.name, each.field))


def by_target(own: Iterable[OwnSetting], gateway: Resolver, entry: Entry) -> Iterator[list[Difference]]:
    """Compare as `compare` does, a target at a time, as there may be tens of thousands."""
    comparable = [one for one in own if one.field and one.field not in _NOT_COMPARED]
    common = [one for one in comparable if not one.principal]
    broker = Resolver(PolicySet(0, _layers(common)), {})
    for (level, name), fields in _targets(common, gateway, entry).items():
        topic = _representative(level, name, entry)
        sides = gateway.resolve(topic, level), broker.resolve(topic, level)
        yield list(_at_target((level, name), sorted(fields), sides, common))
    single = [one for one in comparable if one.principal]
    yield list(_of_principals(single, gateway, entry.quotas))


# -- targets ------------------------------------------------------------------------------------------


def _layers(own: Iterable[OwnSetting]) -> tuple[PolicyLayer, ...]:
    """The broker's settings as layers; the location of each is its index."""
    settings: dict[Target, dict[str, Setting]] = {}
    ceilings: dict[Target, dict[str, Setting]] = {}
    for index, one in enumerate(own):
        setting = Setting(one.value, Source.FILE, str(index))
        settings.setdefault((one.level, one.name), {})[one.field] = setting
        if one.is_bound:
            ceilings.setdefault((one.level, one.name), {})[one.field] = setting
    return tuple(
        PolicyLayer(level, name, at_level, ceilings.get((level, name), {}))
        for (level, name), at_level in settings.items()
    )


def _targets(own: Sequence[OwnSetting], gateway: Resolver, entry: Entry) -> dict[Target, set[str]]:
    """The fields to compare at each target: those that either side sets there."""
    fields = {one.field for one in own}
    watched = fields | ({FIXED_DELAY} if fields & _DELAYS_OF_BROKERS else set())
    targets: dict[Target, set[str]] = {(Level.BROKER, ""): set(watched)}
    for one in own:
        targets.setdefault((one.level, one.name), set()).add(one.field)
    for level in (Level.NAMESPACE, Level.TOPIC):
        for source in (Source.FILE, Source.STORE):
            for name in gateway.names(level, source, watched):
                if entry.rule_of_names(level, name):
                    continue  # it is meant for other brokers of the file
                topic = _representative(level, name, entry)
                set_here = gateway.settings(topic, level).keys() & watched
                targets.setdefault((level, name), set()).update(set_here)
    for set_here in targets.values():
        if set_here & _DELAYS_OF_BROKERS and FIXED_DELAY in watched:
            set_here.add(FIXED_DELAY)
        if FIXED_DELAY in set_here:
            set_here |= fields & _WITH_FIXED_DELAY
    return targets


def _representative(level: Level, name: str, entry: Entry) -> TopicName:
    """A name that the layers of a target apply to, as those above it do."""
    sample = name.replace("*", "x")
    return entry.name_of(sample) if level is Level.TOPIC else TopicName("", sample)


# -- values -------------------------------------------------------------------------------------------


def _at_target(
    target: Target,
    fields: Iterable[str],
    sides: tuple[EffectivePolicies, EffectivePolicies],
    settings: Sequence[OwnSetting],
) -> Iterator[Difference]:
    gateway, broker = sides
    delay_ms = gateway.number(FIXED_DELAY)
    for field in fields:
        if field in _WITH_FIXED_DELAY and not delay_ms:
            continue
        limit = MAX_DELAY if field == FIXED_DELAY else field
        own = _setting_of(limit, broker, settings)
        if own is None:
            continue
        ours, theirs = _side_of(field, gateway), Side(own.value, own.origin)
        kind = _kind(field, ours.value, own.value, is_enforced=own.is_enforced)
        if kind is not None:
            yield Difference(kind, *target, field, ours, theirs, own)


def _side_of(field: str, gateway: EffectivePolicies) -> Side:
    """The gateway's value of a field, and where it was set."""
    origin = gateway.provenance.get(field)
    where = (origin.ceiling or origin.location or "built in") if origin is not None else ""
    return Side(gateway.values.get(field), where)


def _setting_of(field: str, broker: EffectivePolicies, own: Sequence[OwnSetting]) -> OwnSetting | None:
    """What the broker's value of a field was read from; None if it has none."""
    origin = broker.provenance.get(field)
    if origin is None:
        return None
    return own[int(origin.ceiling.rpartition(" ")[2] or origin.location)]


def _kind(field: str, ours: PolicyValue | None, theirs: PolicyValue, *, is_enforced: bool) -> Kind | None:
    """How a value of the gateway differs from the broker's; None if they cannot be compared."""
    if field == ACTIVE:
        is_active = ours is None or bool(ours)
        return Kind.EQUAL if is_active == bool(theirs) else Kind.STRICTER if is_active else Kind.LOOSER
    if field == FIXED_DELAY:  # against the broker's longest delay
        return Kind.STRICTER if theirs and _number(ours) > _number(theirs) else None
    bound = _limit(field, theirs) if is_enforced else inf
    if ours is None:
        return Kind.UNSET if bound < inf else None
    limit = _limit(field, ours)
    if limit == bound:
        return Kind.EQUAL
    return Kind.STRICTER if bound < limit else Kind.LOOSER


def _limit(field: str, value: PolicyValue) -> float:
    number = _number(value)
    return inf if number == 0 and field not in DISABLED_BY_ZERO else number


def _number(value: PolicyValue | None) -> float:
    return value if isinstance(value, int | float) else 0


def _of_principals(
    own: Iterable[OwnSetting], gateway: Resolver, quotas: Mapping[str, tuple[int, int]]
) -> Iterator[Difference]:
    """Compare quotas of single principals; an entry in `quotas` replaces the quota of each."""
    policies = gateway.resolve(TopicName("", ""), Level.BROKER)
    for one in own:
        if one.principal in quotas:
            in_bytes = one.field == QUOTA_OF_EACH["bytes"]
            ours = Side(quotas[one.principal][in_bytes], "`quotas` of the broker's entry")
        else:
            ours = _side_of(one.field, policies)
        kind = _kind(one.field, ours.value, one.value, is_enforced=one.is_enforced)
        if kind is not None:
            theirs = Side(one.value, one.origin)
            yield Difference(kind, one.level, one.name, one.field, ours, theirs, one, one.principal)
