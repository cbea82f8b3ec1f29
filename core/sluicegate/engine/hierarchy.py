"""The effective policies of a topic: broker, namespace and topic level merged field by field.

At each level the most specific scope counts, and what is for everybody only where no scope sets the field.
Then the most specific name counts (exact before pattern, long pattern before short), then the highest source,
then what is set for this broker alone. The store cannot override a field that the file locks, at that level
and all above it.
Ceilings are found in the same way at each level, and the lowest of them holds.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from sluicegate.model import (
    EffectivePolicies,
    Glob,
    Level,
    PolicyLayer,
    PolicySet,
    PolicyValue,
    Provenance,
    Scope,
    Setting,
    Source,
    TopicName,
)

DISABLED_BY_ZERO = frozenset(
    {"burst_seconds", "fixed_delivery_delay", "max_timestamp_ahead", "max_timestamp_behind"}
)
"""Fields whose 0 means none at all, not unlimited: a ceiling never raises them."""

_Rank: TypeAlias = tuple[tuple[int, bool, int], bool, int]
"""How specific a layer is: its scope, then whether its name is exact, and the length of its pattern."""


class _Chosen(NamedTuple):
    """A setting that counts, and the layer that it is from."""

    setting: Setting
    layer: PolicyLayer


_Merged: TypeAlias = tuple[dict[str, PolicyValue], dict[str, Provenance]]


class Resolver:
    """Merges the levels of one policy set for its topics.

    Topics with the same layers share the merged result, so that a topic without its own policies costs
    next to nothing.

    :param policy_set: all policies of the broker.
    :param defaults: what holds where no level sets a field.
    :param broker_only: fields that only the broker level can set or tighten, as all topics share what they
        limit. Other levels are not asked for them.
    """

    def __init__(
        self,
        policy_set: PolicySet,
        defaults: Mapping[str, PolicyValue],
        broker_only: frozenset[str] = frozenset(),
    ) -> None:
        self.policy_set = policy_set
        self._defaults = defaults
        self._broker_only = broker_only
        self._levels = sorted({layer.level for layer in policy_set.layers})
        self._exact: dict[tuple[Level, str], list[int]] = {}
        self._globs: dict[tuple[Level, str], list[tuple[Glob, int]]] = {}
        """Patterns by their level and prefix, so that a name is compared with few of many."""
        self._prefix_lengths: dict[Level, set[int]] = {}
        self._merged: dict[tuple[int, ...], _Merged] = {}
        self._scoped = frozenset(index for index, layer in enumerate(policy_set.layers) if layer.scope)
        for index, layer in enumerate(policy_set.layers):
            if "*" in layer.name:
                glob = Glob(layer.name)
                self._globs.setdefault((layer.level, glob.prefix), []).append((glob, index))
                self._prefix_lengths.setdefault(layer.level, set()).add(len(glob.prefix))
            else:
                self._exact.setdefault((layer.level, layer.name), []).append(index)

    def resolve(
        self, topic: TopicName, level: Level = Level.TOPIC, scopes: Collection[Scope] = ()
    ) -> EffectivePolicies:
        """The effective policies of one topic.

        :param level: the closest level to look at; what holds for a namespace is known without a topic.
        :param scopes: those of `scopes` that an operation is in.
        """
        layers, policy_set = self.policy_set.layers, self.policy_set
        applying = tuple(index for index in self._applying(topic) if layers[index].level <= level)
        for_all = applying if not self._scoped else tuple(i for i in applying if i not in self._scoped)
        common = EffectivePolicies(
            topic.full,
            policy_set.version,
            *self._merged_from(for_all),
            policy_set.observe_only,
            self._fields(index for index in applying if index in self._scoped),
        )
        if not scopes:
            return common
        of_scopes = tuple(i for i in applying if not layers[i].scope or layers[i].scope in scopes)
        values, provenance = self._merged_from(of_scopes)
        return replace(common, values=values, provenance=provenance, scopes=tuple(scopes), common=common)

    def scopes(self, topic: TopicName) -> tuple[Scope, ...]:
        """The scopes of policies for a topic, without repetition."""
        if not self._scoped:
            return ()
        layers = self.policy_set.layers
        return tuple(dict.fromkeys(layers[i].scope for i in self._applying(topic) if i in self._scoped))

    def settings(self, topic: TopicName, level: Level) -> Mapping[str, Setting]:
        """The fields that one level itself sets for a topic and for everybody, without inherited ones."""
        layers = [self.policy_set.layers[i] for i in self._applying(topic) if i not in self._scoped]
        chosen = _choose(layers, lambda layer: layer.settings)
        return {name: by_level[level].setting for name, by_level in chosen.items() if level in by_level}

    def names(self, level: Level, source: Source, fields: Collection[str]) -> list[str]:
        """The names for which a source sets any of some fields at a level, sorted."""
        return sorted(
            {
                layer.name
                for layer in self.policy_set.layers
                if layer.level is level
                and any(layer.settings[name].source is source for name in fields if name in layer.settings)
            }
        )

    def lock(self, topic: TopicName, level: Level, field: str) -> Setting | None:
        """The setting that keeps the store from setting a field at a level; None if it may.

        What is locked in a scope stays for those in it, and the store may set it for all others.
        """
        for index in self._applying(topic):
            if index in self._scoped:
                continue
            layer = self.policy_set.layers[index]
            setting = layer.settings.get(field)
            if layer.level <= level and setting is not None and _locks(setting):
                return setting
        return None

    def _merged_from(self, indices: tuple[int, ...]) -> _Merged:
        merged = self._merged.get(indices)
        if merged is None:
            layers = self.policy_set.layers
            merged = self._merged[indices] = self._merge([layers[index] for index in indices])
        return merged

    def _fields(self, indices: Iterable[int]) -> frozenset[str]:
        """The fields that some layers set."""
        layers = [self.policy_set.layers[index] for index in indices]
        return frozenset(name for layer in layers for name in (*layer.settings, *layer.ceilings))

    def _applying(self, topic: TopicName) -> Iterator[int]:
        for level in self._levels:
            names = _names(topic, level)
            for name in names:
                yield from self._exact.get((level, name), ())
            yield from sorted(self._matching(level, names))

    def _matching(self, level: Level, names: Sequence[str]) -> set[int]:
        return {
            index
            for name in names
            for length in self._prefix_lengths.get(level, ())
            for glob, index in self._globs.get((level, name[:length]), ())
            if glob.matches(name)
        }

    def _merge(self, layers: Sequence[PolicyLayer]) -> _Merged:
        values = dict(self._defaults)
        provenance = {name: Provenance(None, Source.DEFAULT, "") for name in values}
        for name, by_level in self._own(_choose(layers, lambda layer: layer.settings)):
            level = max(by_level)
            setting, layer = by_level[level]
            values[name] = setting.value
            provenance[name] = Provenance(
                level,
                setting.source,
                setting.location,
                name=layer.name,
                broker=layer.broker,
                scope=layer.scope,
            )
        for name, by_level in self._own(_choose(layers, lambda layer: layer.ceilings)):
            _tighten(name, by_level, values, provenance, raise_zero=name not in DISABLED_BY_ZERO)
        return values, provenance

    def _own(
        self, chosen: Mapping[str, Mapping[Level, _Chosen]]
    ) -> Iterator[tuple[str, Mapping[Level, _Chosen]]]:
        """What was chosen for each field, without levels that do not have it."""
        for name, by_level in chosen.items():
            if name not in self._broker_only:
                yield name, by_level
            elif Level.BROKER in by_level:
                yield name, {Level.BROKER: by_level[Level.BROKER]}


def _names(topic: TopicName, level: Level) -> tuple[str, ...]:
    """The names under which the layers of a level can apply to a topic."""
    if level is Level.TOPIC:
        return topic.all
    return (topic.namespace if level is Level.NAMESPACE else "",)


def _choose(
    layers: Sequence[PolicyLayer], part: Callable[[PolicyLayer], Mapping[str, Setting]]
) -> dict[str, dict[Level, _Chosen]]:
    """The settings that count, by field and level."""
    chosen: dict[str, dict[Level, _Chosen]] = {}
    locked: set[str] = set()
    for level in Level:
        ranked = [(_rank(layer), layer, part(layer)) for layer in layers if layer.level is level]
        for _, _, settings in ranked:
            locked.update(name for name, setting in settings.items() if _locks(setting))
        best: dict[str, tuple[_Rank, Source, bool]] = {}
        for rank, layer, settings in ranked:
            for name, setting in settings.items():
                weight = (rank, setting.source, bool(layer.broker))
                if setting.source is Source.STORE and name in locked:
                    continue
                if name not in best or weight >= best[name]:
                    best[name] = weight
                    chosen.setdefault(name, {})[level] = _Chosen(setting, layer)
    return chosen


def _rank(layer: PolicyLayer) -> _Rank:
    return (layer.scope.rank, "*" not in layer.name, len(layer.name))


def _locks(setting: Setting) -> bool:
    return setting.locked and setting.source is not Source.STORE


def _tighten(
    name: str,
    by_level: Mapping[Level, _Chosen],
    values: dict[str, PolicyValue],
    provenance: dict[str, Provenance],
    *,
    raise_zero: bool,
) -> None:
    bounds = [
        (setting.value, level, setting, layer.scope)
        for level, (setting, layer) in by_level.items()
        if isinstance(setting.value, int | float) and setting.value > 0
    ]
    value = values.get(name, 0)
    if not bounds or not isinstance(value, int | float):
        return
    bound, level, setting, scope = min(bounds, key=lambda each: each[:2])
    if value > bound or (value == 0 and raise_zero):
        values[name] = bound
        where = f"{level.label} ceiling {setting.location}".rstrip()
        origin = provenance.get(name, Provenance(level, setting.source, setting.location))
        whose = f", ceiling of {level.label} {scope}".rstrip()
        provenance[name] = replace(origin, ceiling=where, ceiling_of=whose)
