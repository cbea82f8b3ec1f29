"""What every metadata store offers. The words and the guarantees are those of etcd's v3 API.

A store has one revision, which each change of any key raises by one. All methods are coroutines of one event
loop. Keys are text with slashes, such as `/cluster/register/1`; values are bytes.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from sluicegate.store.policy_store import StoreError

NO_LEASE = 0
"""In place of a lease: the key stays until it is deleted."""
TRANSACTION_LIMIT = 128
"""Conditions, and changes, that one transaction may have: etcd's default `--max-txn-ops`."""


class CompactedError(StoreError):
    """The store no longer keeps the changes that a watch asks for: list again, and watch from there."""


class LeaseExpiredError(StoreError):
    """The lease is gone, and with it every key that it held."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A key and its value."""

    key: str
    value: bytes
    created: int
    """Revision that created the key."""
    modified: int
    """Revision that changed it last."""
    lease: int = NO_LEASE


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries below a prefix, sorted by key, as they were at one revision."""

    revision: int
    entries: tuple[Entry, ...]

    def replaces(self, seen: int) -> bool:
        """Whether it may replace what a watch has told, which goes on while the listing is asked for.

        One that the watch has overtaken may not: nothing would tell of the changes between the two again.

        :param seen: the revision up to which the watch has told.
        """
        return self.revision >= seen


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one key."""

    key: str
    revision: int
    entry: Entry | None
    """What the key holds now; None if it was deleted, or its lease expired."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Holds if a key was last modified at this revision; 0 if there must be no such key."""

    key: str
    modified: int


@dataclass(frozen=True, slots=True)
class Put:
    """Set a key within a transaction."""

    key: str
    value: bytes
    lease: int = NO_LEASE


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a key within a transaction; nothing happens if it is not there."""

    key: str


class MetadataStore(Protocol):
    """Keys, transactions, leases, watches. Each method raises `StoreError` if the store cannot be reached."""

    async def get(self, key: str) -> Entry | None:
        """What a key holds; None if there is no such key."""

    async def list(self, prefix: str) -> Listing:
        """All keys that begin with a prefix."""

    async def put(self, key: str, value: bytes, lease: int = NO_LEASE) -> int:
        """Set a key.

        :return: the revision that this made.
        :raises LeaseExpiredError: if there is no such lease.
        """

    async def delete(self, key: str) -> bool:
        """Delete a key; False if it was not there."""

    async def transact(self, conditions: Sequence[Unchanged], changes: Sequence[Put | Delete]) -> bool:
        """Make all changes as one revision if all conditions hold; otherwise change nothing.

        Each key is named at most once among the changes. There are at most `TRANSACTION_LIMIT` conditions and
        as many changes.

        :return: whether the conditions held.
        :raises ValueError: if a key is named twice, or there are too many of either.
        :raises LeaseExpiredError: if a lease is gone.
        """

    async def grant(self, ttl_s: int) -> int:
        """Make a lease that expires if it is not kept alive.

        :param ttl_s: whole seconds, at least 1; a store may round a short one up, as etcd does.
        :return: its number.
        """

    async def keep_alive(self, lease: int) -> None:
        """Have a lease live for its whole time from now on.

        :raises LeaseExpiredError: if it is gone.
        """

    async def revoke(self, lease: int) -> None:
        """End a lease and delete its keys; nothing happens if it is gone."""

    def watch(self, prefix: str, after: int) -> AsyncGenerator[Sequence[Event], None]:
        """Every change of keys that begin with a prefix, in order, those of one revision together.

        It goes on by itself after the store was away, and then gives what has happened in between. It ends
        when the store is closed. Most users want `follow`, which begins with a listing.

        :param after: the revision whose listing is known; events are of later ones.
        :raises CompactedError: while it runs, if the store no longer keeps the changes that come next.
        """

    async def close(self) -> None:
        """End connections and the iteration of watches; leases are left to expire."""


def refuse_unusable(conditions: Sequence[Unchanged], changes: Sequence[Put | Delete]) -> None:
    """Refuse a transaction that etcd would not take, whatever the store.

    :raises ValueError: if a key is named twice among the changes, or there are too many of either.
    """
    if max(len(conditions), len(changes)) > TRANSACTION_LIMIT:
        raise ValueError(
            f"a transaction has at most {TRANSACTION_LIMIT} conditions and changes, "
            f"not {len(conditions)} and {len(changes)}"
        )
    if len({change.key for change in changes}) < len(changes):
        raise ValueError("a transaction names each key at most once among its changes")


def refuse_short(ttl_s: int) -> None:
    """Refuse a lease that would be over at once.

    :raises ValueError: if it is shorter than a second.
    """
    if ttl_s < 1:
        raise ValueError(f"a lease lives at least 1 s, not {ttl_s}")
