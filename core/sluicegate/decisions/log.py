"""The decision log: records decisions on the hot path and writes them in a thread.

Theory of operation: the event loop appends plain tuples to a bounded queue, or counts allows in windows. It
never waits, formats text or touches a file. A thread empties the queue five times a second, records refusals
in the journal, and spools batches of columns as lines of JSON. Another thread or process later compacts these
to Parquet. If the queue is full, decisions are dropped and counted. At every instant
decided = emitted + dropped + queued.
"""

import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sluicegate.decisions.allow_windows import AllowWindows, Window
from sluicegate.decisions.cost import DecidedGate
from sluicegate.decisions.files import LogFiles, Retention
from sluicegate.decisions.ids import DecisionIds
from sluicegate.decisions.interned import Interned
from sluicegate.decisions.journal import RefusalJournal
from sluicegate.decisions.queue import Allowed, RowQueue
from sluicegate.decisions.rows import MAX_BATCH_ROWS, Row, mappings, of_rows, of_windows
from sluicegate.decisions.spool import encode
from sluicegate.host.wall_clock import WallClock
from sluicegate.model import Decision, Operation

_log = logging.getLogger(__name__)

OnBatch: TypeAlias = Callable[[Sequence[Mapping[str, Any]]], object]
_PERIOD_S = 0.2
_CLOSE_S = 30.0
_TOLERANCE_NS = 1_000_000
"""Tolerated deviation of the wall clock, so that decisions of one loop iteration stay in order."""


@dataclass(frozen=True, slots=True)
class LogStats:
    """Counters of a decision log since its start; `decided == emitted + dropped + queued`, in decisions."""

    decided: int
    """All decisions: allows, and those recorded as single rows."""
    emitted: int
    """Decisions written; without a directory, those passed to the journal and the plugins."""
    dropped: int
    """Decisions lost because the queue was full or the file could not be written."""
    queued: int
    """Decisions not yet written."""
    file_errors: int
    journal_errors: int
    journal_skipped: int
    """Refusals that were not recorded in the journal because too many came at once."""
    hook_errors: int
    """Batches for which a plugin's `sluicegate_decisions` raised an error."""
    journal_lost: int = 0
    """Refusals that were dropped because the journal could not be written for too long."""


_Part: TypeAlias = tuple[list[Row], Mapping[int, int]]
"""Rows, and the durations of timed decisions in ns by row index."""


def _split(rows: list[Row], costs: Mapping[int, int]) -> tuple[_Part, _Part]:
    """Separate allows from other rows: most columns of each part then have one value, stored once."""
    allowed = [row for row in rows if row[-1] is None]
    if len(allowed) == len(rows):
        return (rows, costs), ([], {})
    decided = [row for row in rows if row[-1] is not None]
    costs_of: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for index, cost_ns in costs.items():
        before = sum(row[-1] is None for row in rows[:index])
        if rows[index][-1] is None:
            costs_of[0][before] = cost_ns
        else:
            costs_of[1][index - before] = cost_ns
    return (allowed, costs_of[0]), (decided, costs_of[1])


class DecisionLog:
    """Records the decisions of all gates of one broker. The constructor starts the writer thread.

    A single thread must call `allowed` and `decided`.

    :param directory: directory of the files; None writes no files, only the journal.
    :param system: kind of broker, such as `kafka`.
    :param gateway: name of the broker entry.
    :param detail: `full` for a row for every allow; `summary` for windows of 100 ms.
    :param max_rows_queued: capacity of the queue; further rows are dropped and counted.
    :param on_batch: called by the writer thread with the rows that are not plain allows.
    :param wall_clock: returns ns since 1970.
    :param monotonic: the clock of `now_ns`.
    :param journal: records refusals, for `sluicegate explain ID`.
    :param door: where the decisions are made: proxy, interceptor or client.
    :param host: name of the host; by default its own.
    :param worker: index of the worker that decides, from 0.
    :param run: name of the run; by default start time and id prefix.
    :param retention: rotation and retention of files.
    :param compacting: whether a thread of this process compacts files; otherwise another process does so.
    :param period_s: seconds between two runs of the writer.
    """

    allowed: Allowed
    """Record an operation that was allowed: `(gate, op, now_ns)`. Never blocks, never raises."""

    def __init__(
        self,
        directory: Path | str | None,
        system: str,
        gateway: str,
        detail: Literal["summary", "full"] = "summary",
        max_rows_queued: int = 65_536,
        on_batch: OnBatch | None = None,
        wall_clock: Callable[[], int] = time.time_ns,
        *,
        monotonic: Callable[[], int] = time.monotonic_ns,
        journal: RefusalJournal | None = None,
        door: str = "proxy",
        host: str = "",
        worker: int = 0,
        run: str | None = None,
        retention: Retention | None = None,
        compacting: bool = True,
        period_s: float = _PERIOD_S,
    ) -> None:
        self.ids = DecisionIds()
        started = datetime.fromtimestamp(wall_clock() / 1e9, UTC)
        self.run = run or f"{started:%Y%m%dT%H%M%SZ}-{self.ids.prefix}"
        self._queue = RowQueue(max_rows_queued)
        self._emitted = self._lost = self._hook_errors = self._journal_errors = 0  # by the writer thread
        self._windows = AllowWindows()
        where = {"system": system, "door": door, "gateway": gateway, "host": host or socket.gethostname()}
        self._constants: dict[str, str | int] = {"run": self.run, **where, "worker": worker}
        self._files: LogFiles | None = None
        if directory is not None:
            name, kept = f"{gateway}-{self.ids.prefix}", retention or Retention()
            self._files = LogFiles(Path(directory), self._constants, name, kept, compacting=compacting)
        self._journal = journal
        self._on_batch = on_batch
        self._monotonic = monotonic
        self._wall_clock = WallClock(wall_clock, monotonic, tolerance_ns=_TOLERANCE_NS)
        self._period_s = period_s
        self._stopping = threading.Event()
        self._finished = False
        self._hook_failing = False
        self._reported_overflow = 0
        self.allowed = self._windows.allowed if detail == "summary" else self._queue.allowed
        self._thread = threading.Thread(target=self._run, name=f"sluicegate-decisions-{gateway}", daemon=True)
        self._thread.start()

    def decided(self, gate: DecidedGate, op: Operation, decision: Decision, now_ns: int) -> Decision:
        """Record a decision other than a plain allow. Never blocks, never raises.

        :return: the decision with its id and the gate's policy version.
        """
        stamped = Decision(
            decision.action,
            decision.reasons,
            decision.delay_ns,
            decision.factor,
            decision.observed,
            gate.version,
            self.ids.next(),
            decision.headers,
            decision.breaks,
        )
        self._queue.put(
            (now_ns, gate, op.kind, op.principal, op.client, op.subscription, op.messages, op.bytes, stamped)
        )
        return stamped

    def stats(self) -> LogStats:
        """The current counters. Thread-safe."""
        finished = self._finished
        # Read `emitted` before `decided`, or more decisions could seem written than made.
        emitted, dropped = self._emitted, self._lost + self._queue.overflowed
        decided = self._queue.offered + self._windows.decided
        if finished:
            dropped = decided - emitted
        journal = self._journal
        return LogStats(
            decided=decided,
            emitted=emitted,
            dropped=dropped,
            queued=decided - emitted - dropped,
            file_errors=self._files.errors if self._files else 0,
            journal_errors=self._journal_errors + (journal.errors if journal else 0),
            journal_skipped=journal.skipped if journal else 0,
            journal_lost=journal.lost if journal else 0,
            hook_errors=self._hook_errors,
        )

    def close(self, timeout_s: float = _CLOSE_S) -> bool:
        """Write the queue, close the files and stop the thread. Later decisions are dropped.

        :param timeout_s: seconds to wait for a disk that does not respond.
        :return: False if the thread has not ended in time; the rest of the queue is then lost.
        """
        self._stopping.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            _log.warning(
                "decision log could not be written within %g s: %d decisions are lost",
                timeout_s,
                self.stats().queued,
            )
            return False
        return True

    # -- the writer thread ------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.wait(self._period_s):
            self._write_queue(last=False)
        self._write_queue(last=True)
        if self._journal is not None:
            self._journal.close()
        if self._files is not None:
            self._files.close(self._wall_s())
        self._finished = True

    def _write_queue(self, last: bool) -> None:
        self._wall_clock.follow()
        now_ns, offset_ns = self._monotonic(), self._wall_clock.offset_ns
        try:
            while self._queue:
                rows, costs = self._queue.take()
                allowed, decided = _split(rows, costs)
                if decided[0]:
                    self._record(decided[0], offset_ns, now_ns)
                for part, costs_of_part in (allowed, decided):
                    if part:
                        self._write_rows(part, offset_ns, costs_of_part)
            windows = self._windows.collect_all() if last else self._windows.collect(now_ns)
            for start in range(0, len(windows), MAX_BATCH_ROWS):
                self._write_windows(windows[start : start + MAX_BATCH_ROWS], offset_ns)
            self._record((), offset_ns, now_ns)  # retries queued refusals
            if self._files is not None:
                self._files.rotate(now_ns, (now_ns + offset_ns) / 1e9)
            self._report_overflow()
        except Exception:  # noqa: BLE001 - logged; the thread must survive any error
            _log.exception("decision log: the writer failed, it continues with the next batch")

    def _wall_s(self) -> float:
        return (self._monotonic() + self._wall_clock.offset_ns) / 1e9

    def _report_overflow(self) -> None:
        overflowed = self._queue.overflowed
        if overflowed > self._reported_overflow:
            _log.warning(
                "decision log does not keep up: %d decisions were dropped, as max_rows_queued was reached",
                overflowed - self._reported_overflow,
            )
            self._reported_overflow = overflowed

    def _record(self, rows: Sequence[Row], offset_ns: int, now_ns: int) -> None:
        if self._journal is None:
            return
        try:
            self._journal.record(rows, offset_ns, now_ns)
        except Exception:  # noqa: BLE001 - logged and counted; the log itself continues
            self._journal_errors += 1
            _log.exception("refusal journal: a decision cannot be recorded")

    def _write_rows(self, rows: Sequence[Row], offset_ns: int, costs: Mapping[int, int]) -> None:
        interned = self._interned()
        try:
            line = encode(of_rows(rows, offset_ns, costs, interned))
        except (TypeError, ValueError, OverflowError, AttributeError):
            interned.undo()
            if len(rows) == 1:
                self._lost += 1
                _log.exception("decision log: a decision does not fit the schema: %r", rows[0][-1])
                return
            # Isolate the invalid decision of a plugin, so that the others are written.
            half = len(rows) // 2
            self._write_rows(rows[:half], offset_ns, {})
            self._write_rows(rows[half:], offset_ns, {})
            return
        self._store(line, len(rows))
        self._call_plugins(rows, offset_ns)

    def _write_windows(self, windows: Sequence[Window], offset_ns: int) -> None:
        decisions = sum(window.operations for window in windows)
        interned = self._interned()
        try:
            line = encode(of_windows(windows, offset_ns, interned))
        except (TypeError, OverflowError):
            interned.undo()
            self._lost += decisions
            _log.exception("decision log: windows do not fit the schema")
            return
        self._store(line, decisions)

    def _interned(self) -> Interned:
        """The id tables of the current spool; without files, temporary ones that nobody reads."""
        return self._files.begin_line() if self._files else Interned()

    def _store(self, line: bytes, decisions: int) -> None:
        written = False
        try:
            written = self._files is None or self._files.write(line, decisions, self._monotonic())
        finally:  # count each decision exactly once, even after an error
            if written:
                self._emitted += decisions
            else:
                self._lost += decisions

    def _call_plugins(self, rows: Sequence[Row], offset_ns: int) -> None:
        if self._on_batch is None:
            return
        try:
            batch = list(mappings(rows, offset_ns, self._constants))
            if batch:
                self._on_batch(batch)
            self._hook_failing = False
        except Exception:  # noqa: BLE001 - no error of a plugin may stop the log
            self._hook_errors += 1
            if not self._hook_failing:
                _log.exception(
                    "sluicegate_decisions: a plugin raised; further faults in a row are only counted"
                )
            self._hook_failing = True
