"""The policy store protocol, with its records and errors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from sluicegate.model import Level, PolicyLayer, PolicyValue, Setting, Source

CEILING = "ceiling."
"""Fields with this prefix are ceilings, such as `ceiling.max_publish_rate`."""


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


@dataclass(frozen=True, slots=True)
class Row:
    """One setting as stored."""

    level: Level
    name: str
    """Namespace or topic, exact or with `*`; empty at broker level."""
    field: str
    value: PolicyValue
    version: int
    """Version of the store that this setting created."""


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of a store's history."""

    version: int
    level: Level
    name: str
    field: str
    value: PolicyValue | None
    """None if the field was unset."""
    actor: str
    """Author of the change, as given by the caller."""
    at: str
    """Time of the change, UTC, ISO 8601."""


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

    def change(self, level: Level, name: str, changes: Mapping[str, PolicyValue | None], actor: str) -> int:
        """Set and remove fields in one transaction: others see all changes or none.

        Each field whose value differs is a change with a version of its own.

        :param name: namespace or topic, exact or with `*`; empty at broker level.
        :param changes: values by field, which the caller has checked (`PolicyFields.parse`); None removes a
            field, so that it is inherited again.
        :param actor: the author, for the history.
        :return: the new version, or the current one if nothing differs.
        :raises StoreError: if the store cannot be written.
        """

    def set(self, level: Level, name: str, field: str, value: PolicyValue, actor: str) -> int:
        """Set one field, as `change` does."""
        return self.change(level, name, {field: value}, actor)

    def unset(self, level: Level, name: str, field: str, actor: str) -> int:
        """Remove one field, as `change` does."""
        return self.change(level, name, {field: None}, actor)

    def history(self, limit: int) -> list[Change]:
        """The last changes, newest first.

        :raises StoreError: if the store cannot be read.
        """

    def get_fact(self, key: str) -> str | None:
        """Read a fact; None if there is none.

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


def layers_of(rows: Iterable[Row]) -> tuple[PolicyLayer, ...]:
    """Group settings into policy layers."""
    settings: dict[tuple[Level, str], dict[str, Setting]] = {}
    ceilings: dict[tuple[Level, str], dict[str, Setting]] = {}
    for row in sorted(rows, key=lambda row: row.field):
        setting = Setting(row.value, Source.STORE, f"store version {row.version}")
        kind = ceilings if row.field.startswith(CEILING) else settings
        kind.setdefault((row.level, row.name), {})[row.field.removeprefix(CEILING)] = setting
    return tuple(
        PolicyLayer(level, name, settings.get((level, name), {}), ceilings.get((level, name), {}))
        for level, name in sorted(settings.keys() | ceilings.keys())
    )


def differences(
    level: Level,
    name: str,
    changes: Mapping[str, PolicyValue | None],
    old: Mapping[str, PolicyValue],
    version: int,
    actor: str,
) -> list[Change]:
    """The history of a change: an entry for each field whose value differs.

    :param old: values by field before it.
    :param version: version of the store before it.
    """
    at = datetime.now(UTC).isoformat(timespec="seconds")
    differing = [(field, value) for field, value in changes.items() if not _same(old.get(field), value)]
    return [
        Change(number, level, name, field, value, actor, at)
        for number, (field, value) in enumerate(differing, version + 1)
    ]


def _same(old: PolicyValue | None, new: PolicyValue | None) -> bool:
    # Python considers 1 and True equal, policies do not.
    return old == new and type(old) is type(new)
