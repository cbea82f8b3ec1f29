"""The metadata store protocol. Terms and guarantees are those of etcd's v3 API.

A store has one revision, which every transaction increments. All methods belong to one event loop. Keys are
text with slashes, such as `/cluster/register/1`; values are bytes.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from sluicegate.store.policy_store import StoreError

NO_LEASE = 0
"""No lease: the key stays until it is deleted."""
TRANSACTION_LIMIT = 128
"""Most conditions, and most changes, of one transaction: etcd's default `--max-txn-ops`."""


class CompactedError(StoreError):
    """The store has discarded the changes that a watch needs: list again, and watch from there."""


class LeaseExpiredError(StoreError):
    """The lease no longer exists, nor do its keys."""


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
    """The entries below a prefix at one revision, sorted by key."""

    revision: int
    entries: tuple[Entry, ...]

    def replaces(self, seen: int) -> bool:
        """Whether the listing is at least as new as what a concurrent watch has delivered.

        An older listing must be ignored: the watch does not deliver the changes in between again.

        :param seen: the last revision that the watch has delivered.
        """
        return self.revision >= seen


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one key."""

    key: str
    revision: int
    entry: Entry | None
    """The new entry; None if the key was deleted or its lease expired."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A condition: the key was last modified at this revision; 0 means that it does not exist."""

    key: str
    modified: int


@dataclass(frozen=True, slots=True)
class Put:
    """Sets a key within a transaction."""

    key: str
    value: bytes
    lease: int = NO_LEASE


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes a key within a transaction, if it exists."""

    key: str


class MetadataStore(Protocol):
    """Keys, transactions, leases and watches. All methods raise `StoreError` if the store is unreachable."""

    async def get(self, key: str) -> Entry | None:
        """Read a key; None if it does not exist."""

    async def list(self, prefix: str) -> Listing:
        """List all keys that start with a prefix."""

    async def put(self, key: str, value: bytes, lease: int = NO_LEASE) -> int:
        """Set a key.

        :return: the new revision.
        :raises LeaseExpiredError: if the lease does not exist.
        """

    async def delete(self, key: str) -> bool:
        """Delete a key; False if it did not exist."""

    async def transact(self, conditions: Sequence[Unchanged], changes: Sequence[Put | Delete]) -> bool:
        """Apply all changes as one revision if all conditions hold; otherwise change nothing.

        Changes must have distinct keys. There are at most `TRANSACTION_LIMIT` conditions and as many changes.

        :return: whether the conditions held.
        :raises ValueError: if two changes have the same key, or there are too many conditions or changes.
        :raises LeaseExpiredError: if a lease no longer exists.
        """

    async def grant(self, ttl_s: int) -> int:
        """Create a lease that expires unless it is kept alive.

        :param ttl_s: whole seconds, at least 1; a store may round short times up, as etcd does.
        :return: its number.
        """

    async def keep_alive(self, lease: int) -> None:
        """Renew a lease for its full duration.

        :raises LeaseExpiredError: if it no longer exists.
        """

    async def revoke(self, lease: int) -> None:
        """Revoke a lease, if it exists, and delete its keys."""

    def watch(self, prefix: str, after: int) -> AsyncGenerator[Sequence[Event], None]:
        """Yield every change of keys that start with a prefix, in order and grouped by revision.

        The watch resumes after an outage without losing changes, and ends when the store is closed. Most
        callers want `follow`, which starts with a listing.

        :param after: the revision of a known listing; the watch yields later changes.
        :raises CompactedError: during iteration, if the store has discarded the changes that come next.
        """

    async def close(self) -> None:
        """Close connections and end watches. Leases are not revoked and expire."""


def check_transaction(conditions: Sequence[Unchanged], changes: Sequence[Put | Delete]) -> None:
    """Refuse a transaction that etcd would refuse, so that all stores behave the same.

    :raises ValueError: if two changes have the same key, or there are too many conditions or changes.
    """
    if max(len(conditions), len(changes)) > TRANSACTION_LIMIT:
        raise ValueError(
            f"a transaction has at most {TRANSACTION_LIMIT} conditions and changes, "
            f"not {len(conditions)} and {len(changes)}"
        )
    if len({change.key for change in changes}) < len(changes):
        raise ValueError("the changes of a transaction must have distinct keys")


def check_ttl(ttl_s: int) -> None:
    """Refuse a lease that would expire at once.

    :raises ValueError: if it is shorter than a second.
    """
    if ttl_s < 1:
        raise ValueError(f"a lease lasts at least 1 s, not {ttl_s}")
