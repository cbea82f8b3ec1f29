"""The decision log: takes every decision on the path of messages, writes it elsewhere.

Theory of operation: the event loop appends plain tuples to a bounded queue, or counts allows in windows;
nothing there waits, builds text or touches a file. A thread empties the queue five times a second,
records refusals in the journal, and spools batches of columns as lines of JSON, from which Parquet files are
made later and elsewhere. What does not fit is dropped and counted, so that at every instant
decided = emitted + dropped + queued.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sluicegate.decisions.allow_windows import AllowWindows, Window
from sluicegate.decisions.cost import DecidedGate
from sluicegate.decisions.files import Keeping, LogFiles
from sluicegate.decisions.ids import DecisionIds
from sluicegate.decisions.interned import Interned
from sluicegate.decisions.journal import RefusalJournal
from sluicegate.decisions.queue import Allowed, RowQueue
from sluicegate.decisions.rows import MAX_BATCH_ROWS, Row, mappings, of_rows, of_windows
from sluicegate.decisions.spool import encode
from sluicegate.model import Decision, Operation
from sluicegate.wall_clock import WallClock

_log = logging.getLogger(__name__)

OnBatch: TypeAlias = Callable[[Sequence[Mapping[str, Any]]], object]
_PERIOD_S = 0.2
_CLOSE_S = 30.0
_TOLERANCE_NS = 1_000_000
"""How far the machine's clock may move before the log follows: decisions of one turn keep their order."""


@dataclass(frozen=True, slots=True)
class LogStats:
    """Counters of a decision log since its start; `decided == emitted + dropped + queued`, in decisions."""

    decided: int
    """Decisions taken: allows, and those recorded as a row of their own."""
    emitted: int
    """Decisions written; without a directory, those handed to the journal and the plugins."""
    dropped: int
    """Decisions lost because the queue was full or the file could not be written."""
    queued: int
    """Decisions not yet written."""
    file_errors: int
    journal_errors: int
    journal_skipped: int
    """Refusals left out of the journal because too many came at once."""
    hook_errors: int
    """Batches that a plugin's `sluicegate_decisions` raised on."""
    journal_lost: int = 0
    """Refusals that are not in the journal because it could not be written for too long."""


class _Counts:
    """Plain counters, written by the writer thread only."""

    __slots__ = ("emitted", "hook_errors", "journal_errors", "lost")

    def __init__(self) -> None:
        self.emitted = 0
        self.lost = 0
        self.hook_errors = 0
        self.journal_errors = 0


_Part: TypeAlias = tuple[list[Row], Mapping[int, int]]
"""Rows, and what decisions took in ns by place among them."""


def _apart(rows: list[Row], costs: Mapping[int, int]) -> tuple[_Part, _Part]:
    """Allows and others: apart, most columns of each have one value, which is written and read once."""
    allowed = [row for row in rows if row[-1] is None]
    if len(allowed) == len(rows):
        return (rows, costs), ([], {})
    decided = [row for row in rows if row[-1] is not None]
    costs_of: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for place, cost_ns in costs.items():
        before = sum(row[-1] is None for row in rows[:place])
        if rows[place][-1] is None:
            costs_of[0][before] = cost_ns
        else:
            costs_of[1][place - before] = cost_ns
    return (allowed, costs_of[0]), (decided, costs_of[1])


class DecisionLog:
    """Records decisions; the sink of all gates of one broker. Its thread starts at once.

    `allowed` and `decided` are to be called by one thread.

    :param directory: where the files go; None writes none (journal, plugins and counters go on).
    :param system: kind of broker, such as `kafka`.
    :param gateway: name of the broker entry.
    :param detail: `full` for a row for every allow; `summary` for windows of 100 ms.
    :param max_rows_queued: rows that may wait for the writer; more are dropped and counted.
    :param on_batch: called by the writer thread with the rows that are not plain allows.
    :param wall_clock: gives ns since 1970.
    :param monotonic: gives the ns that `now_ns` counts in.
    :param journal: takes refusals, for `sluicegate explain ID`.
    :param door: where the decisions are taken.
    :param run: name of the run; made of start time and id prefix if it is left out.
    :param keeping: rotation and retention of files.
    :param compacting: whether this process makes the Parquet files, in a thread; else another one does.
    :param period_s: seconds between two rounds of the writer.
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
        run: str | None = None,
        keeping: Keeping | None = None,
        compacting: bool = True,
        period_s: float = _PERIOD_S,
    ) -> None:
        self.ids = DecisionIds()
        started = datetime.fromtimestamp(wall_clock() / 1e9, UTC)
        self.run = run or f"{started:%Y%m%dT%H%M%SZ}-{self.ids.prefix}"
        self._queue = RowQueue(max_rows_queued)
        self._counts = _Counts()
        self._windows = AllowWindows()
        self._constants = {"run": self.run, "system": system, "door": door, "gateway": gateway}
        self._files: LogFiles | None = None
        if directory is not None:
            name = f"{gateway}-{self.ids.prefix}"
            self._files = LogFiles(
                Path(directory), self._constants, name, keeping or Keeping(), compacting=compacting
            )
        self._journal = journal
        self._on_batch = on_batch
        self._monotonic = monotonic
        self._wall_clock = WallClock(wall_clock, monotonic, tolerance_ns=_TOLERANCE_NS)
        self._period_s = period_s
        self._stopping = threading.Event()
        self._finished = False
        self._hook_failing = False
        self._told_overflow = 0
        self.allowed = self._windows.allowed if detail == "summary" else self._queue.allowed
        self._thread = threading.Thread(target=self._run, name=f"sluicegate-decisions-{gateway}", daemon=True)
        self._thread.start()

    def decided(self, gate: DecidedGate, op: Operation, decision: Decision, now_ns: int) -> Decision:
        """Record a decision that is not a plain allow, or was only observed. Never blocks, never raises.

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
        )
        self._queue.put(
            (now_ns, gate, op.kind, op.principal, op.client, op.subscription, op.messages, op.bytes, stamped)
        )
        return stamped

    def stats(self) -> LogStats:
        """The counters now; to be called by any thread."""
        counts = self._counts
        finished = self._finished
        # What was written is read before what was decided, or more could seem written than decided.
        emitted, dropped = counts.emitted, counts.lost + self._queue.overflowed
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
            journal_errors=counts.journal_errors + (journal.errors if journal else 0),
            journal_skipped=journal.skipped if journal else 0,
            journal_lost=journal.lost if journal else 0,
            hook_errors=counts.hook_errors,
        )

    def close(self, timeout_s: float = _CLOSE_S) -> bool:
        """Write what is queued, end the files and stop the thread; what is decided later is dropped.

        :param timeout_s: seconds to wait for a disk that does not answer.
        :return: False if the thread has not ended in time; what it did not write is then lost.
        """
        self._stopping.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            _log.warning(
                "decision log was not written out within %g s: %d decisions are lost",
                timeout_s,
                self.stats().queued,
            )
            return False
        return True

    # -- the writer thread ------------------------------------------------------------------------

    def _run(self) -> None:
        if self._files is not None:
            self._files.tidy(self._wall_s())
        while not self._stopping.wait(self._period_s):
            self._round(last=False)
        self._round(last=True)
        if self._journal is not None:
            self._journal.close()
        if self._files is not None:
            self._files.close(self._wall_s())
        self._finished = True

    def _round(self, last: bool) -> None:
        self._wall_clock.follow()
        now_ns, offset_ns = self._monotonic(), self._wall_clock.offset_ns
        try:
            while self._queue:
                rows, costs = self._queue.take()
                allowed, decided = _apart(rows, costs)
                if decided[0]:
                    self._record(decided[0], offset_ns, now_ns)
                for part, costs_of_part in (allowed, decided):
                    if part:
                        self._write_rows(part, offset_ns, costs_of_part)
            windows = self._windows.collect_all() if last else self._windows.collect(now_ns)
            for start in range(0, len(windows), MAX_BATCH_ROWS):
                self._write_windows(windows[start : start + MAX_BATCH_ROWS], offset_ns)
            self._record((), offset_ns, now_ns)  # what waited for the journal to be written again
            if self._files is not None:
                self._files.rotate(now_ns, (now_ns + offset_ns) / 1e9)
            self._tell_overflow()
        except Exception:  # noqa: BLE001 - logged; the thread must outlive whatever happens in one round
            _log.exception("decision log: a round of the writer failed, it goes on with the next")

    def _wall_s(self) -> float:
        return (self._monotonic() + self._wall_clock.offset_ns) / 1e9

    def _tell_overflow(self) -> None:
        overflowed = self._queue.overflowed
        if overflowed > self._told_overflow:
            _log.warning(
                "decision log does not keep up: %d decisions were dropped, as max_rows_queued were waiting",
                overflowed - self._told_overflow,
            )
            self._told_overflow = overflowed

    def _record(self, rows: Sequence[Row], offset_ns: int, now_ns: int) -> None:
        if self._journal is None:
            return
        try:
            self._journal.record(rows, offset_ns, now_ns)
        except Exception:  # noqa: BLE001 - logged and counted; the log itself goes on
            self._counts.journal_errors += 1
            _log.exception("refusal journal: a decision cannot be recorded")

    def _write_rows(self, rows: Sequence[Row], offset_ns: int, costs: Mapping[int, int]) -> None:
        interned = self._interned()
        try:
            line = encode(of_rows(rows, offset_ns, costs, interned))
        except (TypeError, ValueError, OverflowError, AttributeError):
            interned.undo()
            if len(rows) == 1:
                self._counts.lost += 1
                _log.exception("decision log: a decision does not fit the schema: %r", rows[0][-1])
                return
            # One decision of a plugin that cannot be written must not take the others with it.
            half = len(rows) // 2
            self._write_rows(rows[:half], offset_ns, {})
            self._write_rows(rows[half:], offset_ns, {})
            return
        self._store(line, len(rows))
        self._show(rows, offset_ns)

    def _write_windows(self, windows: Sequence[Window], offset_ns: int) -> None:
        decisions = sum(window.operations for window in windows)
        interned = self._interned()
        try:
            line = encode(of_windows(windows, offset_ns, interned))
        except (TypeError, OverflowError):
            interned.undo()
            self._counts.lost += decisions
            _log.exception("decision log: windows do not fit the schema")
            return
        self._store(line, decisions)

    def _interned(self) -> Interned:
        """The tables that resolve the ids of a line; not kept without files, as nothing reads them."""
        interned = self._files.interned if self._files else Interned()
        interned.make_room()
        return interned

    def _store(self, line: bytes, decisions: int) -> None:
        written = False
        try:
            written = self._files is None or self._files.write(line, decisions, self._monotonic())
        finally:  # whatever happens, each decision is counted once
            if written:
                self._counts.emitted += decisions
            else:
                self._counts.lost += decisions

    def _show(self, rows: Sequence[Row], offset_ns: int) -> None:
        if self._on_batch is None:
            return
        try:
            shown = list(mappings(rows, offset_ns, self._constants))
            if shown:
                self._on_batch(shown)
            self._hook_failing = False
        except Exception:  # noqa: BLE001 - whatever a plugin raises must not stop the log
            self._counts.hook_errors += 1
            if not self._hook_failing:
                _log.exception(
                    "sluicegate_decisions: a plugin raised; further faults in a row are only counted"
                )
            self._hook_failing = True
