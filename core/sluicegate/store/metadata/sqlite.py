"""A metadata store in a SQLite file, for the processes of one host."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic_ns
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
    refuse_short,
    refuse_unusable,
)
from sluicegate.store.policy_store import StoreError
from sluicegate.store.sqlite_file import SqliteFile

_KEPT = 10_000
_POLL_S = 0.05
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_DAMAGED = "restore it from a backup, or move it away: it begins empty then"
Result = TypeVar("Result")
Action = Callable[[sqlite3.Connection], Result]


class SqliteMetadata:
    """See `MetadataStore`. Watches look for changes of other processes twenty times a second.

    Leases run on the host's monotonic clock, which all its processes share, and end when the host restarts.

    :param path: the database file; its directory is made if it is missing.
    :param now_ns: the clock.
    :param kept: revisions whose changes are kept for watches.
    """

    def __init__(self, path: str | Path, now_ns: Callable[[], int] = monotonic_ns, kept: int = _KEPT) -> None:
        self._file = SqliteFile(path, "metadata store", keys.SCHEMA, keys.SCHEMA_VERSION, _DAMAGED)
        self._place = str(path)
        self._now_ns = now_ns
        self._kept = kept
        self._thread = ThreadPoolExecutor(1, "metadata store")
        self._changed: set[asyncio.Event] = set()
        self._boot = _boot()
        self._is_prepared = False
        self._is_closed = False

    async def get(self, key: str) -> Entry | None:
        """What a key holds."""
        return await self._read(lambda connection: keys.get(connection, key))

    async def list(self, prefix: str) -> Listing:
        """All keys that begin with a prefix."""
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
        """Make all changes as one revision if all conditions hold."""
        refuse_unusable(conditions, changes)

        def transact(connection: sqlite3.Connection) -> bool:
            if not keys.holds(connection, conditions):
                return False
            keys.apply(connection, changes, self._kept)
            return True

        return await self._write(transact)

    async def grant(self, ttl_s: int) -> int:
        """Make a lease."""
        refuse_short(ttl_s)
        return await self._write(lambda connection: keys.grant(connection, ttl_s, self._now_ns()))

    async def keep_alive(self, lease: int) -> None:
        """Have a lease live for its whole time from now on."""
        await self._write(lambda connection: keys.keep_alive(connection, lease, self._now_ns()))

    async def revoke(self, lease: int) -> None:
        """End a lease and delete its keys."""
        await self._write(lambda connection: keys.revoke(connection, lease, self._kept))

    async def compact(self) -> None:
        """Forget all changes up to now."""
        await self._write(lambda connection: keys.compact(connection, keys.revision(connection)))

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[Sequence[Event], None]:
        """Every change of keys that begin with a prefix; an error of the file ends it."""
        changed = asyncio.Event()
        self._changed.add(changed)
        try:
            while not self._is_closed:
                changed.clear()
                after, found = await self._since(prefix, after)
                for events in found:
                    yield events
                if not found:
                    await _either(changed, _POLL_S)
        finally:
            self._changed.discard(changed)

    async def close(self) -> None:
        """Close the file and end watches."""
        if not self._is_closed:
            self._is_closed = True
            self._tell()
            await asyncio.get_running_loop().run_in_executor(self._thread, self._file.close)
            self._thread.shutdown(wait=False)

    async def _since(self, prefix: str, after: int) -> tuple[int, Sequence[tuple[Event, ...]]]:
        try:
            return await self._read(lambda connection: keys.since(connection, prefix, after))
        except StoreError:
            if self._is_closed:
                return after, ()
            raise

    async def _read(self, action: Action[Result]) -> Result:
        """Read, without what an expired lease holds."""

        def read(connection: sqlite3.Connection) -> Result:
            if keys.is_due(connection, self._now_ns()):
                connection.execute("BEGIN IMMEDIATE")
                with connection:
                    keys.expire(connection, self._now_ns(), self._kept)
            return action(connection)

        return await self._do(read)

    async def _write(self, action: Action[Result]) -> Result:
        """Make one transaction."""

        def write(connection: sqlite3.Connection) -> Result:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                keys.expire(connection, self._now_ns(), self._kept)
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                return action(connection)

        try:
            return await self._do(write)
        finally:
            self._tell()

    async def _do(self, action: Action[Result]) -> Result:
        if self._is_closed:
            raise StoreError(f"the metadata store {self._place!r} was closed", "open it again")

        def do(connection: sqlite3.Connection) -> Result:
            if not self._is_prepared:
                connection.execute("BEGIN IMMEDIATE")
                with connection:
                    keys.note_boot(connection, self._boot, self._kept)
                self._is_prepared = True
            return action(connection)

        return await asyncio.get_running_loop().run_in_executor(self._thread, self._file.do, do)

    def _tell(self) -> None:
        for changed in self._changed:
            changed.set()


async def _either(changed: asyncio.Event, longest_s: float) -> None:
    """Wait for an event, for some time."""
    try:
        async with asyncio.timeout(longest_s):
            await changed.wait()
    except TimeoutError:
        return


def _boot() -> str:
    """Changes with every start of the host; the same text where the system does not tell."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return "unknown"
