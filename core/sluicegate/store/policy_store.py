"""The policy store protocol, with its records and errors."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, Protocol, TypeAlias

from sluicegate.model import Level, PolicyLayer, PolicyValue, Setting, Source

CEILING = "ceiling."
"""Fields with this prefix are ceilings, such as `ceiling.max_publish_rate`."""


Values: TypeAlias = "Mapping[Key, PolicyValue]"
"""What layers set, by key."""


class StoreError(Exception):
    """The store cannot be used now; gateways continue with the last good policies."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}: {remedy}")
        self.message = message
        """What is wrong, without the remedy."""
        self.remedy = remedy
        """What to do about it."""


class StoreUnavailableError(StoreError):
    """The store does not respond. Any other error means that it refuses the request or is damaged."""


class StoreConflictError(StoreError):
    """The store has another version than the caller has read; nothing is changed."""


class Key(NamedTuple):
    """What a setting is for: level, name, field and broker."""

    level: Level
    name: str
    """Namespace or topic, exact or with `*`; empty at broker level."""
    field: str
    broker: str = ""
    """Name of the broker's entry; empty for all entries."""
    scope: str = ""
    """Whose operations it is for, as text; empty for everybody. Only a file sets policies for some."""

    @property
    def target(self) -> str:
        """What the setting is for, as text: `topic orders.eu of broker main`."""
        whose = f" for {self.scope}" if self.scope else ""
        if self.level is Level.BROKER:
            return f"broker {self.broker}".rstrip() + whose
        where = f"{self.level.label} {self.name}"
        return (f"{where} of broker {self.broker}" if self.broker else where) + whose


@dataclass(frozen=True, slots=True)
class Row:
    """One setting as stored."""

    key: Key
    value: PolicyValue
    version: int
    """Version of the store that this setting created."""


class Edit(NamedTuple):
    """One field to set or to unset."""

    key: Key
    value: PolicyValue | None
    """What the caller has checked (`PolicyFields.parse`); None removes the field: it is inherited again."""


class Author(NamedTuple):
    """Who makes a change, and why."""

    actor: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One field of a revision."""

    key: Key
    old: PolicyValue | None
    """None if it was not set."""
    new: PolicyValue | None
    """None if it is unset."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One entry of the history: what was changed at once."""

    number: int
    """The store's version after it."""
    author: Author
    at: str
    """Time of the change, UTC, ISO 8601."""
    changes: tuple[Change, ...]
    policies: str = ""
    """The version of all policies after it, as decisions name it; empty if the author does not know it."""
    is_of_file: bool = False
    """True if the configuration file was changed, and not the store."""


class PolicyStore(Protocol):
    """Policies set at run time, and facts. Shared by processes and thread-safe.

    A class that derives from it needs neither `set` nor `unset` of its own.
    """

    def layers(self) -> tuple[int, tuple[PolicyLayer, ...]]:
        """Read all settings and their version as one snapshot.

        :raises StoreError: if the store cannot be read.
        """

    def version(self) -> int:
        """Number of the last change by any process. Cheap enough for several calls a second.

        :raises StoreError: if the store cannot be read.
        """

    def change(
        self,
        edits: Sequence[Edit],
        author: Author,
        expected: int | None = None,
        policies: str = "",
    ) -> int:
        """Set and remove fields in one transaction: others see all changes or none.

        :param edits: each key at most once.
        :param author: for the history.
        :param expected: the version that the caller has read; None for any.
        :param policies: the version of all policies after it, for the history.
        :return: the new version, or the current one if nothing differs.
        :raises StoreConflictError: if the version is not the expected one.
        :raises StoreError: if the store cannot be written.
        """

    def set(self, level: Level, name: str, field: str, value: PolicyValue, actor: str) -> int:
        """Set one field for all brokers, as `change` does."""
        return self.change([Edit(Key(level, name, field), value)], Author(actor))

    def unset(self, level: Level, name: str, field: str, actor: str) -> int:
        """Remove one field that is set for all brokers, as `change` does."""
        return self.change([Edit(Key(level, name, field), None)], Author(actor))

    def record(self, author: Author, changes: Sequence[Change], policies: str) -> int:
        """Note in the history that a configuration file changed; the store's settings stay.

        :param policies: the version of all policies after it.
        :return: the new version.
        :raises StoreError: if the store cannot be written.
        """

    def history(self, limit: int, before: int | None = None) -> list[Revision]:
        """The last revisions, newest first.

        :param before: only those with a lower number.
        :raises StoreError: if the store cannot be read.
        """

    def put_fact(self, key: str, value: str) -> None:
        """Store a fact, such as a node's address, or remove it if the value is empty.

        Facts do not change the version.

        :raises StoreError: if the store cannot be written.
        """

    def claim_fact(self, key: str, value: str) -> str:
        """Store a fact unless its key exists, by compare-and-set: of two processes only one succeeds.

        :return: the current value of the key, which may be another process's.
        :raises StoreError: if the store cannot be written.
        """

    def facts(self, prefix: str) -> Mapping[str, str]:
        """Read all facts whose keys start with a prefix.

        :raises StoreError: if the store cannot be read.
        """

    def close(self) -> None:
        """Release files and connections. The store cannot be used afterwards."""


def flattened(layers: Iterable[PolicyLayer]) -> Iterator[tuple[Key, Setting]]:
    """What layers set, one by one; fields of ceilings have their prefix."""
    for layer in layers:
        for prefix, settings in (("", layer.settings), (CEILING, layer.ceilings)):
            for field, setting in settings.items():
                key = Key(layer.level, layer.name, f"{prefix}{field}", layer.broker, str(layer.scope))
                yield key, setting


def grouped(settings: Iterable[tuple[Key, Setting]]) -> tuple[PolicyLayer, ...]:
    """The inverse of `flattened` for policies without a scope; layers and their fields are sorted."""
    by_target: dict[tuple[Level, str, str], tuple[dict[str, Setting], dict[str, Setting]]] = {}
    for (level, name, field, broker, _), setting in sorted(settings, key=lambda each: each[0].field):
        parts = by_target.setdefault((level, name, broker), ({}, {}))
        parts[field.startswith(CEILING)][field.removeprefix(CEILING)] = setting
    return tuple(
        PolicyLayer(level, name, *parts, broker) for (level, name, broker), parts in sorted(by_target.items())
    )


def values_of(layers: Iterable[PolicyLayer]) -> dict[Key, PolicyValue]:
    """What layers set, ceilings with their prefix."""
    return {key: setting.value for key, setting in flattened(layers)}


def changes_between(before: Values, after: Values) -> list[Change]:
    """The differences between two sets of values, sorted."""
    return [
        Change(key, before.get(key), after.get(key))
        for key in sorted(before.keys() | after.keys())
        if repr(before.get(key)) != repr(after.get(key))
    ]


def layers_of(rows: Iterable[Row]) -> tuple[PolicyLayer, ...]:
    """Group stored settings into policy layers."""
    return grouped(
        (row.key, Setting(row.value, Source.STORE, f"store version {row.version}")) for row in rows
    )


def differences(edits: Iterable[Edit], old: Callable[[Key], PolicyValue | None]) -> tuple[Change, ...]:
    """The edits whose value differs from what is set.

    :param old: the value of a key; None if it is not set.
    """
    pairs = ((edit, old(edit.key)) for edit in edits)
    return tuple(Change(edit.key, value, edit.value) for edit, value in pairs if not _same(value, edit.value))


def refuse_conflict(expected: int | None, version: int) -> None:
    """Refuse a change that was made from another version.

    :raises StoreConflictError: if the version is not the expected one.
    """
    if expected is not None and expected != version:
        message = f"the store has version {version} now, not {expected}: somebody else has changed it"
        raise StoreConflictError(message, "look at the policies again, then repeat the change")


def now_text() -> str:
    """The time for the history: UTC, ISO 8601, in whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _same(old: PolicyValue | None, new: PolicyValue | None) -> bool:
    # Python considers 1 and True equal, policies do not.
    return old == new and type(old) is type(new)
