"""The refusal journal: the last refusals by decision id, for `sluicegate explain`.

It is a small SQLite database in the state directory. It is written within half a second and finds one id
quickly, whereas the decision log is made for bulk reading.
"""

import json
import logging
import os
import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from sluicegate.decisions.columns import OPERATION_NAMES
from sluicegate.decisions.ids import id_in
from sluicegate.decisions.rows import Row, action_of
from sluicegate.host.private_files import identity, make_database, make_folder
from sluicegate.host.sqlite_wal import use_wal
from sluicegate.model import Action, Outcome, Reason, version_text, visible
from sluicegate.pacing.backoff import Backoff

_log = logging.getLogger(__name__)

FILE_NAME = "refusals.db"
MAX_REFUSALS = 10_000
MAX_HOLDS = 2_000
"""Holds have a limit of their own, so that a busy rate limit does not displace the refusals."""
_MAX_AT_ONCE = 1_000
_BUSY_S = 0.2
"""Several workers write to the journal; a longer wait would block the decision log."""
_FIRST_RETRY_NS = 500_000_000
_LONGEST_RETRY_NS = 30_000_000_000

_TABLE = """
CREATE TABLE IF NOT EXISTS refusals (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, time_ns INTEGER NOT NULL,
  held INTEGER NOT NULL, client TEXT NOT NULL, entry TEXT NOT NULL)
"""
_INDEX = "CREATE INDEX IF NOT EXISTS refusals_client ON refusals (client, seq)"
_INSERT = "INSERT OR IGNORE INTO refusals (id, time_ns, held, client, entry) VALUES (?, ?, ?, ?, ?)"
_PRUNE = """
DELETE FROM refusals WHERE held = :held AND seq <= (
  SELECT seq FROM refusals WHERE held = :held ORDER BY seq DESC LIMIT 1 OFFSET :most)
"""
_HAS_TABLE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'refusals'"
_FIND = "SELECT id, time_ns, client, entry FROM refusals WHERE id = :key"
_LAST = """
SELECT id, time_ns, client, entry FROM refusals
WHERE client = :key OR (client > :key || '@' AND client < :key || 'A') ORDER BY seq DESC LIMIT 1
"""


_NEWEST = (
    "SELECT seq, id, time_ns, client, entry FROM refusals WHERE seq < :key ORDER BY seq DESC LIMIT :most"
)
_LATER = "SELECT seq, id, time_ns, client, entry FROM refusals WHERE seq > :key ORDER BY seq LIMIT :most"
_NO_BOUND = 2**62


class JournalError(Exception):
    """The refusal journal cannot be read; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One refused, dropped or held operation."""

    id: str
    time_ns: int
    """Nanoseconds since 1970."""
    client: str
    """Client id and peer address."""
    principal: str
    system: str
    gateway: str
    topic: str
    subscription: str
    operation: str
    action: str
    """reject, drop or delay."""
    policy_version: int
    reasons: tuple[Reason, ...]


_Entry: TypeAlias = tuple[str, int, bool, str, str]


class RefusalJournal:
    """Writes refusals; used by the decision log's thread only.

    While the database cannot be written, the last refusals are queued. Writing is retried after half a
    second, then with backoff up to every 30 seconds. At every instant
    refused = written + skipped + lost + waiting.

    :param state_dir: the state directory; created if it does not exist.
    :param system: kind of broker.
    :param gateway: name of the broker entry.
    :param max_refusals: number of refusals to keep.
    """

    def __init__(
        self, state_dir: Path | str, system: str, gateway: str, max_refusals: int = MAX_REFUSALS
    ) -> None:
        self.path = Path(state_dir) / FILE_NAME
        self.errors = 0
        """Number of failed writes."""
        self.skipped = 0
        """Refusals that were not recorded because too many came at once."""
        self.lost = 0
        """Refusals that were dropped because the journal could not be written for too long."""
        self._system = system
        self._gateway = gateway
        self._max_refusals = max_refusals
        self._database: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._waiting: deque[_Entry] = deque()
        self._backoff = Backoff(_FIRST_RETRY_NS, _LONGEST_RETRY_NS)
        self._lost_before = 0

    def record(self, rows: Sequence[Row], wall_offset_ns: int, now_ns: int) -> None:
        """Write the refused, dropped and held operations among these rows, and queued ones; log failures.

        :param rows: rows of the decision log; may be empty.
        :param wall_offset_ns: offset from monotonic time to ns since 1970.
        :param now_ns: monotonic time.
        """
        entries = [self._entry(row, wall_offset_ns) for row in rows if _belongs(row)]
        self.skipped += max(0, len(entries) - _MAX_AT_ONCE)
        self._waiting.extend(entries[-_MAX_AT_ONCE:])
        while len(self._waiting) > _MAX_AT_ONCE:
            self._waiting.popleft()
            self.lost += 1
        if self._waiting and not self._backoff.wait_ns(now_ns):
            self._flush(now_ns)

    def close(self) -> None:
        """Try to write queued refusals and close the database. A later `record` reopens it."""
        if self._waiting:
            self._flush(0)
            self.lost += len(self._waiting)
            self._waiting.clear()
        self._disconnect()

    def _flush(self, now_ns: int) -> None:
        try:
            try:
                self._write(self._waiting)
            except sqlite3.DatabaseError as error:
                if type(error) is not sqlite3.DatabaseError:
                    raise  # locked, full or read-only, but not damaged
                self._set_aside(error)
                self._write(self._waiting)
        except (sqlite3.Error, OSError) as error:
            self._failed(error, now_ns)
            return
        self._waiting.clear()
        if self._backoff.failures:
            self._backoff.reset()
            missing = self.lost - self._lost_before
            _log.warning("refusal journal %s is writable again; %d refusals are missing", self.path, missing)

    def _failed(self, error: Exception, now_ns: int) -> None:
        self.errors += 1
        if not self._backoff.failures:
            self._lost_before = self.lost
            _log.warning(
                "refusal journal %s cannot be written (%s); writing is retried, and of the refusals until "
                "then `sluicegate explain` will know the last %d",
                self.path,
                error,
                _MAX_AT_ONCE,
            )
        self._backoff.failed(now_ns)
        self._disconnect()

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _entry(self, row: Row, wall_offset_ns: int) -> _Entry:
        now_ns, gate, kind, principal, client, subscription, _, _, decision = row
        assert decision is not None  # noqa: S101 - `_belongs` let only decisions through
        details = {
            "principal": principal,
            "system": self._system,
            "gateway": self._gateway,
            "topic": gate.topic.full,
            "subscription": subscription,
            "operation": OPERATION_NAMES[kind],
            "action": action_of(decision),
            "policy_version": decision.policy_version,
            "reasons": [asdict(reason) for reason in decision.reasons],
        }
        held = decision.action is Action.DELAY
        return decision.id, now_ns + wall_offset_ns, held, client, json.dumps(details)

    def _write(self, entries: Iterable[_Entry]) -> None:
        if self._database is not None and self._file != identity(self.path):
            self._disconnect()  # the file was removed: nobody could read what we write to it
        database = self._database or self._open()
        with database:
            database.executemany(_INSERT, entries)
            database.execute(_PRUNE, {"held": False, "most": self._max_refusals})
            database.execute(_PRUNE, {"held": True, "most": MAX_HOLDS})

    def _open(self) -> sqlite3.Connection:
        make_folder(self.path.parent)
        make_database(self.path)
        database = sqlite3.connect(self.path, timeout=_BUSY_S, check_same_thread=False)
        try:
            use_wal(database, _BUSY_S)
            # Losing refusals in a power cut is acceptable, a sync every half second is not.
            database.execute("PRAGMA synchronous = OFF")
            database.execute(_TABLE)
            database.execute(_INDEX)
        except BaseException:
            database.close()
            raise
        self._database = database
        self._file = identity(self.path)
        return database

    def _set_aside(self, error: Exception) -> None:
        """Rename a damaged journal and continue with a new one.

        :raises OSError: if it cannot be moved.
        """
        self.errors += 1
        self._disconnect()
        damaged = self.path.with_name(f"{FILE_NAME}.damaged")
        _log.warning(
            "refusal journal %s is damaged (%s): moved to %s, a new one is created", self.path, error, damaged
        )
        for suffix in ("-wal", "-shm"):
            # SQLite would apply what is left there to the new file.
            self.path.with_name(FILE_NAME + suffix).unlink(missing_ok=True)
        if self.path.exists():
            self.path.replace(damaged)


def find(state_dir: Path | str, decision_id: str) -> Refusal | None:
    """Look up a refusal by its id.

    :param state_dir: the gateway's state directory.
    :param decision_id: the id, or a client's error text that contains it.
    :raises JournalError: if there is no journal or it cannot be read.
    """
    return _one(state_dir, _FIND, id_in(decision_id) or decision_id)


def last(state_dir: Path | str, client: str) -> Refusal | None:
    """Look up the last refusal of a client, for errors that contain only a code.

    :param state_dir: the gateway's state directory.
    :param client: client id, or client id and peer address as in `orders@10.0.0.7:51234`.
    :raises JournalError: if there is no journal or it cannot be read.
    """
    return _one(state_dir, _LAST, client)


def newest(state_dir: Path | str, most: int, before: int | None = None) -> list[tuple[int, Refusal]]:
    """The last refusals and holds with their numbers, newest first.

    :param before: only those with a lower number.
    :raises JournalError: if there is no journal or it cannot be read.
    """
    return _listed(state_dir, _NEWEST, _NO_BOUND if before is None else before, most)


def later(state_dir: Path | str, after: int, most: int) -> list[tuple[int, Refusal]]:
    """The refusals and holds after a number, in order; raises as `newest` does."""
    return _listed(state_dir, _LATER, after, most)


def explain_refusal(state_dir: Path | str, decision_id: str) -> str:
    """Describe a refusal for people.

    :param state_dir: the gateway's state directory.
    :param decision_id: the id, or a client's error text that contains it.
    :raises JournalError: if the id is not in the journal, or the journal cannot be read.
    """
    refusal = find(state_dir, decision_id)
    if refusal is None:
        raise JournalError(
            f"no refusal {decision_id!r} in {Path(state_dir) / FILE_NAME}; it keeps the last {MAX_REFUSALS}, "
            "older ones are in the decision log (column decision_id)"
        )
    return render(refusal)


def explain_last(state_dir: Path | str, client: str) -> str:
    """Describe the last refusal of a client for people.

    :param state_dir: the gateway's state directory.
    :param client: client id, with or without the peer address.
    :raises JournalError: if it has no refusals, or the journal cannot be read.
    """
    refusal = last(state_dir, client)
    if refusal is None:
        raise JournalError(
            f"no refusals of client {client!r} in {Path(state_dir) / FILE_NAME}; expected a client id "
            "as the client sets it, such as 'orders', or with its address, 'orders@10.0.0.7:51234'"
        )
    return render(refusal)


_DONE = {"reject": "refused", "drop": "dropped", "delay": "held back"}
_OUTCOMES = {
    Outcome.LIMIT_REACHED: "the limit is reached",
    Outcome.INVALID: "it can never pass as it is",
    Outcome.PRECONDITION: "it may pass later",
}


def render(refusal: Refusal) -> str:
    """Format a refusal for a terminal, without a final newline; texts of clients are escaped."""
    when = datetime.fromtimestamp(refusal.time_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    operation = refusal.operation.replace("_", " ")
    lines = [
        f"decision {refusal.id}: {operation} {_DONE.get(refusal.action, refusal.action)}",
        f"  when    {when}",
        f"  who     {refusal.principal}, client {refusal.client}",
        f"  where   {refusal.gateway} ({refusal.system}), topic {refusal.topic}"
        + (f", subscription {refusal.subscription}" if refusal.subscription else ""),
        f"  rules   policy version {version_text(refusal.policy_version)}",
    ]
    for reason in refusal.reasons:
        level, of, whose = reason.level.partition(" for ")
        level = f"set at {level} level{of}{whose}" if level else "built in"
        lines += [
            f"  policy  {reason.policy} ({level}): {_OUTCOMES[reason.outcome]}",
            f"          current {reason.current:.16g}, limit {reason.limit:.16g}",
            f"          {reason.text}",
        ]
    return "\n".join(map(visible, lines))


def _belongs(row: Row) -> bool:
    decision = row[-1]
    return (
        decision is not None
        and not decision.observed
        and decision.action in (Action.REJECT, Action.DROP, Action.DELAY)
    )


@contextmanager
def _reading(state_dir: Path | str) -> Iterator[sqlite3.Connection]:
    path = Path(state_dir) / FILE_NAME
    try:
        is_there, may_read = path.exists(), os.access(path, os.R_OK)
    except PermissionError:
        is_there, may_read = True, False
    if not is_there:
        raise JournalError(
            f"no refusal journal at {str(path)!r}: nothing was refused yet, or state_dir is another one"
        )
    if not may_read:
        raise JournalError(
            f"cannot read refusal journal {str(path)!r}: Permission denied; run the command as the user of "
            "the gateway, who keeps it"
        )
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1)) as database:
            yield database
    except sqlite3.Error as error:
        raise JournalError(
            f"cannot read refusal journal {str(path)!r}: {error}; remove it, the gateway creates a new one"
        ) from error


def _one(state_dir: Path | str, query: str, key: str) -> Refusal | None:
    with _reading(state_dir) as database:
        if database.execute(_HAS_TABLE).fetchone() is None:
            return None  # the file has just been created, without its table
        row = database.execute(query, {"key": key}).fetchone()
    return None if row is None else _refusal(*row)


def _listed(state_dir: Path | str, query: str, key: int, most: int) -> list[tuple[int, Refusal]]:
    with _reading(state_dir) as database:
        if database.execute(_HAS_TABLE).fetchone() is None:
            return []
        rows = database.execute(query, {"key": key, "most": most}).fetchall()
    return [(seq, _refusal(*row)) for seq, *row in rows]


def _refusal(decision_id: str, time_ns: int, client: str, entry: str) -> Refusal:
    details = json.loads(entry)
    reasons = tuple(
        Reason(**{**reason, "outcome": Outcome(reason["outcome"])}) for reason in details.pop("reasons")
    )
    return Refusal(id=decision_id, time_ns=time_ns, client=client, reasons=reasons, **details)
