"""Keys, revisions, history and leases in SQLite tables: functions that take a connection and the time.

Functions that write must be called within a transaction started with `BEGIN IMMEDIATE`.
"""

import sqlite3
from collections.abc import Sequence
from itertools import groupby

from sluicegate.store.metadata.keys import end_of, key_bytes, key_text
from sluicegate.store.metadata.metadata_store import (
    NO_LEASE,
    CompactedError,
    Delete,
    Entry,
    Event,
    LeaseExpiredError,
    Listing,
    Put,
    Unchanged,
)

SCHEMA_VERSION = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS entry (
  key BLOB PRIMARY KEY, value BLOB NOT NULL, created INTEGER NOT NULL, modified INTEGER NOT NULL,
  lease INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entry_by_lease ON entry (lease) WHERE lease != 0;
CREATE TABLE IF NOT EXISTS event (
  revision INTEGER NOT NULL, key BLOB NOT NULL, value BLOB, created INTEGER NOT NULL, lease INTEGER NOT NULL,
  PRIMARY KEY (revision, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lease (
  number INTEGER PRIMARY KEY AUTOINCREMENT, ttl_ns INTEGER NOT NULL, expires_ns INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS state (revision INTEGER NOT NULL, compacted INTEGER NOT NULL, boot TEXT NOT NULL);
INSERT INTO state SELECT 1, 1, '' WHERE NOT EXISTS (SELECT 1 FROM state);
"""
_SECOND_NS = 1_000_000_000
_GET = "SELECT key, value, created, modified, lease FROM entry WHERE key = ?"
_LIST = "SELECT key, value, created, modified, lease FROM entry WHERE key >= ? AND key < ? ORDER BY key"
_SINCE = """
SELECT revision, key, value, created, lease FROM event WHERE revision > ? AND key >= ? AND key < ?
ORDER BY revision, key"""
_AFTER_ALL = b"\xff"
"""Greater than every key: UTF-8 has no such byte."""


def revision(connection: sqlite3.Connection) -> int:
    """The last revision."""
    return int(_state(connection)[0])


def get(connection: sqlite3.Connection, key: str) -> Entry | None:
    """Read a key."""
    row = connection.execute(_GET, (key_bytes(key),)).fetchone()
    return None if row is None else _entry(row)


def listing(connection: sqlite3.Connection, prefix: str) -> Listing:
    """List all keys that start with a prefix, as one snapshot."""
    connection.execute("BEGIN")
    try:
        rows = connection.execute(_LIST, _bounds(prefix)).fetchall()
        return Listing(revision(connection), tuple(_entry(row) for row in rows))
    finally:
        connection.execute("ROLLBACK")


def since(connection: sqlite3.Connection, prefix: str, after: int) -> tuple[int, list[tuple[Event, ...]]]:
    """Read the changes of keys that start with a prefix.

    :param after: the last known revision.
    :return: the current revision, and all changes up to it, grouped by revision.
    :raises CompactedError: if they have been discarded.
    """
    # What polls mostly find, so it takes no transaction.
    if revision(connection) == after:
        return after, []
    connection.execute("BEGIN")
    try:
        last, compacted, _ = _state(connection)
        rows = connection.execute(_SINCE, (after, *_bounds(prefix))).fetchall()
    finally:
        connection.execute("ROLLBACK")
    if not compacted <= after <= last:
        raise CompactedError(
            f"changes after revision {after} are not kept, only those from {compacted + 1} to {last}",
            "list again and watch from there",
        )
    return last, [tuple(_event(row) for row in rows) for _, rows in groupby(rows, lambda row: row[0])]


def are_met(connection: sqlite3.Connection, conditions: Sequence[Unchanged]) -> bool:
    """Whether all conditions of a transaction are met."""
    for condition in conditions:
        entry = get(connection, condition.key)
        if (entry.modified if entry else 0) != condition.modified:
            return False
    return True


def apply(connection: sqlite3.Connection, changes: Sequence[Put | Delete], kept: int) -> None:
    """Apply all changes as one revision.

    :raises LeaseExpiredError: if a lease no longer exists; the caller must roll the transaction back.
    """
    number = revision(connection) + 1
    changed = False
    for change in changes:
        old = get(connection, change.key)
        key = key_bytes(change.key)
        if isinstance(change, Put):
            if change.lease != NO_LEASE:
                refuse_expired(connection, change.lease)
            created = number if old is None else old.created
            row = (key, change.value, created, number, change.lease)
            connection.execute("INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?)", row)
            event = (number, key, change.value, created, change.lease)
            connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", event)
            changed = True
        elif old is not None:
            connection.execute("DELETE FROM entry WHERE key = ?", (key,))
            connection.execute("INSERT INTO event VALUES (?, ?, NULL, 0, 0)", (number, key))
            changed = True
    if changed:
        connection.execute("UPDATE state SET revision = ?", (number,))
        compact(connection, number - kept)


def compact(connection: sqlite3.Connection, up_to: int) -> None:
    """Discard the changes up to a revision."""
    connection.execute("DELETE FROM event WHERE revision <= ?", (up_to,))
    connection.execute("UPDATE state SET compacted = max(compacted, ?)", (up_to,))


def grant(connection: sqlite3.Connection, ttl_s: int, now_ns: int) -> int:
    """Create a lease."""
    ttl_ns = ttl_s * _SECOND_NS
    insert = "INSERT INTO lease (ttl_ns, expires_ns) VALUES (?, ?)"
    return connection.execute(insert, (ttl_ns, now_ns + ttl_ns)).lastrowid or NO_LEASE


def keep_alive(connection: sqlite3.Connection, lease: int, now_ns: int) -> None:
    """Renew a lease for its full duration.

    :raises LeaseExpiredError: if it no longer exists.
    """
    refuse_expired(connection, lease)
    connection.execute("UPDATE lease SET expires_ns = ? + ttl_ns WHERE number = ?", (now_ns, lease))


def revoke(connection: sqlite3.Connection, lease: int, kept: int) -> None:
    """Revoke a lease and delete its keys as one revision."""
    rows = connection.execute("SELECT key FROM entry WHERE lease = ? AND lease != 0", (lease,)).fetchall()
    apply(connection, [Delete(key_text(row[0])) for row in rows], kept)
    connection.execute("DELETE FROM lease WHERE number = ?", (lease,))


def next_expiry_ns(connection: sqlite3.Connection) -> int | None:
    """When the next lease expires; None if there is none."""
    soonest_ns: int | None = connection.execute("SELECT min(expires_ns) FROM lease").fetchone()[0]
    return soonest_ns


def expire(connection: sqlite3.Connection, now_ns: int, kept: int) -> None:
    """Revoke expired leases, the oldest first."""
    query = "SELECT number FROM lease WHERE expires_ns <= ? ORDER BY expires_ns, number"
    for (lease,) in connection.execute(query, (now_ns,)).fetchall():
        revoke(connection, lease, kept)


def note_boot(connection: sqlite3.Connection, boot: str, kept: int) -> None:
    """Revoke all leases if the host has rebooted, which restarts its monotonic clock.

    :param boot: identifier of this boot of the host.
    """
    if _state(connection)[2] != boot:
        for (lease,) in connection.execute("SELECT number FROM lease").fetchall():
            revoke(connection, lease, kept)
        connection.execute("UPDATE state SET boot = ?", (boot,))


def refuse_expired(connection: sqlite3.Connection, lease: int) -> None:
    """Raise `LeaseExpiredError` if the lease does not exist."""
    if connection.execute("SELECT 1 FROM lease WHERE number = ?", (lease,)).fetchone() is None:
        raise LeaseExpiredError(f"there is no lease {lease}", "it expired or was revoked: create a new one")


def _state(connection: sqlite3.Connection) -> tuple[int, int, str]:
    row = connection.execute("SELECT revision, compacted, boot FROM state").fetchone()
    if row is None:
        raise ValueError("its revision is missing")
    return int(row[0]), int(row[1]), str(row[2])


def _bounds(prefix: str) -> tuple[bytes, bytes]:
    first = key_bytes(prefix)
    return first, end_of(first) or _AFTER_ALL


def _entry(row: tuple[bytes, bytes, int, int, int]) -> Entry:
    return Entry(key_text(row[0]), row[1], row[2], row[3], row[4])


def _event(row: tuple[int, bytes, bytes | None, int, int]) -> Event:
    number, raw, value, created, lease = row
    key = key_text(raw)
    return Event(key, number, None if value is None else Entry(key, value, created, number, lease))
