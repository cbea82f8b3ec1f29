"""Policies as data: what each level sets, and the effective values of one topic."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from sluicegate.model.mode import ENFORCE, OBSERVE, Mode, ModeKind, parse_mode
from sluicegate.model.scope import EVERYBODY, Scope

PolicyValue: TypeAlias = int | float | str | bool
MAX_DELAY_MS = 36_525 * 24 * 3600 * 1000
"""Longest delivery delay: a hundred years, far below the overflow of timestamps."""

_ORDER = tuple(reversed(ModeKind))


class Level(IntEnum):
    """Where a setting was made; a higher level overrides a lower one, field by field."""

    BROKER = 0
    NAMESPACE = 1
    TOPIC = 2

    @property
    def label(self) -> str:
        """The level as written in texts and metrics."""
        return self.name.lower()


LEVELS: Mapping[str, Level] = {level.label: level for level in Level}
"""The levels by label."""


class Source(IntEnum):
    """Who made a setting; at the same level a higher source overrides a lower one."""

    DEFAULT = 0
    FILE = 1
    STORE = 2

    @property
    def label(self) -> str:
        """The source as written in texts."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Setting:
    """One field as one level sets it."""

    value: PolicyValue
    source: Source
    location: str = ""
    """Where it was set: `gateway.yaml:12`, `store version 7` or an environment variable."""
    locked: bool = False
    """True if no higher source may override it (`locked` in the file)."""


@dataclass(frozen=True, slots=True)
class PolicyLayer:
    """What one source sets for one namespace, one topic, or the whole broker.

    Field names are the policies' (`max_publish_rate`) or, for an option of a policy, dotted:
    `on_limit.max_publish_rate`, `mode.max_publish_rate`, `on_unknown.max_subscriptions_per_topic`.
    """

    level: Level
    name: str
    """Exact namespace or topic name, or a pattern with `*`; empty at broker level."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    ceilings: Mapping[str, Setting] = field(default_factory=dict)
    """Limits that lower levels can tighten but not loosen."""
    broker: str = ""
    """Name of the broker's entry that it is for; empty for all entries."""
    scope: Scope = EVERYBODY
    """Whose operations it is for."""

    @property
    def locks(self) -> bool:
        """Whether it has a field that no higher source may override."""
        return any(setting.locked for part in (self.settings, self.ceilings) for setting in part.values())


@dataclass(frozen=True, slots=True)
class PolicySet:
    """All policies of one broker at one version; replaced as a whole, so that no request sees a mix."""

    version: int
    """A digest of the rules; see `policy_version`."""
    layers: tuple[PolicyLayer, ...] = ()
    observe_only: bool = False
    """True to observe everything and apply nothing."""
    exempt_principals: frozenset[str] = frozenset()
    """Principals that skip counts, rates and factors."""
    exempt_policies: frozenset[str] = frozenset()
    """Further policies, such as `max_message_size`, that exempt principals skip too."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where an effective value came from."""

    level: Level | None
    """None for a built-in default."""
    source: Source
    location: str
    ceiling: str = ""
    """Where the ceiling was set that tightened the value; empty if none did."""
    name: str = ""
    """Name or pattern of the namespace or topic that it was set for."""
    broker: str = ""
    """Name of the broker's entry that it was set for; empty for all entries."""
    scope: Scope = EVERYBODY
    """Whom it was set for."""
    ceiling_of: str = ""
    """Level of the ceiling that tightened the value, and whom it was set for; empty if none did."""

    @property
    def owner(self) -> str:
        """Who has a limit of this value: those with the same owner share it."""
        return f"{self.scope}{self.ceiling_of}"


@dataclass(frozen=True, slots=True)
class EffectivePolicies:
    """The effective policies of one topic; fields that no level sets are absent."""

    topic: str
    version: int
    values: Mapping[str, PolicyValue]
    provenance: Mapping[str, Provenance]
    observe_only: bool = False
    scoped: frozenset[str] = frozenset()
    """The fields that any scope sets on the topic."""
    scopes: tuple[Scope, ...] = ()
    """Whose they are: operations that are in all of these scopes, and in no other of the topic."""
    common: "EffectivePolicies | None" = None
    """What holds for operations in no scope; None if that is this."""

    def owner(self, *fields: str) -> str:
        """Whose limit some fields set, as text; empty for the limit that everybody shares.

        What keeps a balance or a count by policy adds this to its key, so that those in a scope have a limit
        of their own where their scope sets it.
        """
        if self.common is None:
            return ""
        pairs = [(self.provenance.get(name), self.common.provenance.get(name)) for name in fields]
        owners = [(own.owner, of_all.owner if of_all is not None else "") for own, of_all in pairs if own]
        return ", ".join(sorted({own or "no ceiling" for own, of_all in owners if own != of_all}))

    @property
    def own_fields(self) -> frozenset[str]:
        """The policies that differ, in value or in an option, from what holds for operations in no scope."""
        return frozenset(name.rpartition(".")[2] for name in self.scoped if self.owner(name))

    def number(self, field_name: str) -> float:
        """The value of a count, size, rate or duration; 0 if it is unset."""
        value = self.values.get(field_name, 0)
        return value if isinstance(value, int | float) else 0

    def text(self, field_name: str, default: str) -> str:
        """The value of a choice such as `on_limit.max_publish_rate`."""
        return str(self.values.get(field_name, default))

    def flag(self, field_name: str) -> bool:
        """The value of a switch such as `delayed_delivery_active`; False if it is unset."""
        return bool(self.values.get(field_name, False))

    def mode(self, policy: str) -> Mode:
        """To whom a policy applies on this topic, by its own setting or because all are only observed."""
        if self.observe_only:
            return OBSERVE
        text = self.values.get(f"mode.{policy}")
        return ENFORCE if text is None else parse_mode(str(text))

    def trial(self, policy: str) -> Mode | None:
        """The mode of a policy that does not apply to everybody; None for one that does."""
        mode = self.mode(policy)
        return None if mode.kind is ModeKind.ENFORCE else mode

    def modes(self, policies: Iterable[str]) -> list[Mode]:
        """The modes of several policies, without repetition: first those that apply to everybody."""
        modes = {self.mode(policy): None for policy in policies}
        return sorted(modes, key=lambda mode: _ORDER.index(mode.kind)) if len(modes) > 1 else list(modes)

    def observes(self, policy: str) -> bool:
        """Whether a policy is only recorded on this topic."""
        return self.mode(policy).observes

    def enforces(self, policy: str) -> bool:
        """Whether a policy applies to everybody on this topic."""
        return self.mode(policy).enforces

    def on_limit(self, names: Iterable[str]) -> str:
        """What happens above a limit whose dimensions are charged together, such as messages and bytes.

        A value set for one of them takes precedence over a default of another.

        :param names: the policies of the dimensions.
        """
        options = [f"on_limit.{name}" for name in names]
        return self.text(next((option for option in options if self.level(option)), options[0]), "delay")

    def level(self, field_name: str) -> str:
        """The level that supplied a field, and for whom, as text; empty for a built-in default."""
        origin = self.provenance.get(field_name)
        if origin is None or origin.level is None:
            return ""
        return f"{origin.level.label} for {origin.scope}" if origin.scope else origin.level.label
