"""The common base of the metadata stores in SQLite tables."""

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TypeVar

from sluicegate.store.metadata import sqlite_keys as keys
from sluicegate.store.metadata.metadata_store import (
    NO_LEASE,
    Delete,
    Entry,
    Event,
    Listing,
    Put,
    Unchanged,
    check_transaction,
    check_ttl,
)
from sluicegate.store.policy_store import StoreError

KEPT = 10_000
"""Default number of revisions whose changes are kept for watches."""
Result = TypeVar("Result")
Action = Callable[[sqlite3.Connection], Result]


class TableMetadata(ABC):
    """A `MetadataStore` in SQLite tables; subclasses provide the connection.

    :param now_ns: the clock of the leases.
    :param kept: number of revisions whose changes are kept for watches.
    :param poll_s: interval at which watches poll for changes by other processes; None for never.
    :param changed: events that signal possible changes; each watch adds its own.
    """

    def __init__(
        self, now_ns: Callable[[], int], kept: int, poll_s: float | None, changed: set[asyncio.Event]
    ) -> None:
        self._now_ns = now_ns
        self._kept = kept
        self._poll_s = poll_s
        self._changed = changed
        self._is_closed = False

    @abstractmethod
    async def _do(self, action: Action[Result]) -> Result:
        """Run one action on the connection.

        :raises StoreError: if the store was closed, or cannot be used.
        """

    async def get(self, key: str) -> Entry | None:
        """Read a key."""
        return await self._read(lambda connection: keys.get(connection, key))

    async def list(self, prefix: str) -> Listing:
        """List all keys that start with a prefix."""
        return await self._read(lambda connection: keys.listing(connection, prefix))

    async def put(self, key: str, value: bytes, lease: int = NO_LEASE) -> int:
        """Set a key."""

        def put(connection: sqlite3.Connection) -> int:
            keys.apply(connection, [Put(key, value, lease)], self._kept)
            return keys.revision(connection)

        return await self._write(put)

    async def delete(self, key: str) -> bool:
        """Delete a key."""

        def delete(connection: sqlite3.Connection) -> bool:
            before = keys.revision(connection)
            keys.apply(connection, [Delete(key)], self._kept)
            return keys.revision(connection) > before

        return await self._write(delete)

    async def transact(self, conditions: Sequence[Unchanged], changes: Sequence[Put | Delete]) -> bool:
        """Apply all changes as one revision if all conditions hold."""
        check_transaction(conditions, changes)

        def transact(connection: sqlite3.Connection) -> bool:
            if not keys.are_met(connection, conditions):
                return False
            keys.apply(connection, changes, self._kept)
            return True

        return await self._write(transact)

    async def grant(self, ttl_s: int) -> int:
        """Create a lease."""
        check_ttl(ttl_s)
        return await self._write(lambda connection: keys.grant(connection, ttl_s, self._now_ns()))

    async def keep_alive(self, lease: int) -> None:
        """Renew a lease for its full duration."""
        await self._write(lambda connection: keys.keep_alive(connection, lease, self._now_ns()))

    async def revoke(self, lease: int) -> None:
        """Revoke a lease and delete its keys."""
        await self._write(lambda connection: keys.revoke(connection, lease, self._kept))

    async def compact(self) -> None:
        """Discard all changes so far, as etcd does periodically."""
        await self._write(lambda connection: keys.compact(connection, keys.revision(connection)))

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[Sequence[Event], None]:
        """Yield every change of keys that start with a prefix; an error of the store ends the watch."""
        changed = asyncio.Event()
        self._changed.add(changed)
        try:
            while not self._is_closed:
                # Before reading: what changes meanwhile sets it again.
                changed.clear()
                after, batches = await self._since(prefix, after)
                for events in batches:
                    yield events
                if not batches:
                    await _wait(changed, self._poll_s)
        finally:
            self._changed.discard(changed)

    async def _since(self, prefix: str, after: int) -> tuple[int, Sequence[tuple[Event, ...]]]:
        try:
            return await self._read(lambda connection: keys.since(connection, prefix, after))
        except StoreError:
            if self._is_closed:
                return after, ()
            raise

    async def _read(self, action: Action[Result]) -> Result:
        """Run a read action after revoking expired leases."""

        def read(connection: sqlite3.Connection) -> Result:
            self._expire(connection)
            return action(connection)

        return await self._do(read)

    async def _write(self, action: Action[Result]) -> Result:
        """Run a write action as one transaction."""

        def write(connection: sqlite3.Connection) -> Result:
            self._expire(connection)
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                return action(connection)

        try:
            return await self._do(write)
        finally:
            self._notify_watches()

    def _expire(self, connection: sqlite3.Connection) -> None:
        """Revoke expired leases in a separate transaction."""
        due_ns = keys.next_expiry_ns(connection)
        if due_ns is not None and due_ns <= self._now_ns():
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                # Apart from the action, which may raise: what has expired stays so.
                keys.expire(connection, self._now_ns(), self._kept)

    def _notify_watches(self) -> None:
        for changed in self._changed:
            changed.set()


async def _wait(changed: asyncio.Event, longest_s: float | None) -> None:
    try:
        async with asyncio.timeout(longest_s):
            await changed.wait()
    except TimeoutError:
        return
