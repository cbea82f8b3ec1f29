"""What every policy store offers, and the words they share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from sluicegate.model import Level, PolicyLayer, PolicyValue, Setting, Source

CEILING = "ceiling."
"""Fields with this prefix are ceilings, such as `ceiling.max_publish_rate`."""


class StoreError(Exception):
    """The store cannot be used now; gateways go on with the last good policies."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}: {remedy}")
        self.message = message
        """What is wrong, without the remedy."""
        self.remedy = remedy
        """What to do about it."""


class StoreAwayError(StoreError):
    """The store does not answer now. Any other error means that it answers and refuses, or is damaged."""


@dataclass(frozen=True, slots=True)
class Row:
    """One setting as a store keeps it."""

    level: Level
    name: str
    """Namespace or topic, exact or with `*`; empty at broker level."""
    field: str
    value: PolicyValue
    version: int
    """Version of the store that this setting made."""


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a store's history."""

    version: int
    level: Level
    name: str
    field: str
    value: PolicyValue | None
    """None if the field was unset."""
    actor: str
    """Who made the change, as the caller said."""
    at: str
    """When, UTC, ISO 8601."""


class PolicyStore(Protocol):
    """Policies set at run time, and small facts; shared by processes, safe for threads."""

    def layers(self) -> tuple[int, tuple[PolicyLayer, ...]]:
        """Everything that is set, and the version it belongs to, read as one snapshot.

        :raises StoreError: if the store cannot be read.
        """

    def version(self) -> int:
        """Number of the last change, by any process; cheap enough for several calls a second.

        :raises StoreError: if the store cannot be read.
        """

    def set(self, level: Level, name: str, field: str, value: PolicyValue, actor: str) -> int:
        """Set one field; the caller has checked the value (`PolicyFields.parse`).

        :param name: namespace or topic, exact or with `*`; empty at broker level.
        :param actor: the author, for the history.
        :return: the new version, or the present one if the value is set already.
        :raises StoreError: if the store cannot be written.
        """

    def unset(self, level: Level, name: str, field: str, actor: str) -> int:
        """Take one field away, so that it is inherited again.

        :return: the new version, or the present one if the field is not set.
        :raises StoreError: if the store cannot be written.
        """

    def history(self, limit: int) -> list[Change]:
        """The last changes, newest first.

        :raises StoreError: if the store cannot be read.
        """

    def get_fact(self, key: str) -> str | None:
        """A fact kept with `put_fact`; None if there is none.

        :raises StoreError: if the store cannot be read.
        """

    def put_fact(self, key: str, value: str) -> None:
        """Keep a small fact, such as a node's address; facts have no part in the version.

        :raises StoreError: if the store cannot be written.
        """

    def claim_fact(self, key: str, value: str) -> str:
        """Keep a fact unless its key is taken, by compare-and-set: of two processes only one gets it.

        :return: the value that the key holds now, which may be another process's.
        :raises StoreError: if the store cannot be written.
        """

    def facts(self, prefix: str) -> Mapping[str, str]:
        """All facts whose keys begin with a prefix.

        :raises StoreError: if the store cannot be read.
        """

    def close(self) -> None:
        """Release files; the store is not to be used afterwards."""


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
