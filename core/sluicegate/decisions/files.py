"""Creates, rotates and closes the spools of one decision log."""

import itertools
import logging
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sluicegate.decisions.interned import Interned
from sluicegate.decisions.spool import Spool, partition
from sluicegate.pacing.backoff import Backoff

_log = logging.getLogger(__name__)
_SECOND_NS = 1_000_000_000
_FIRST_RETRY_NS = _SECOND_NS
_LONGEST_RETRY_NS = 30 * _SECOND_NS
TIDY_S = 3_600
"""How often files that are too old are removed, even if nothing is decided."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Rotation and retention of files; 0 is no bound."""

    rotate_bytes: int = 128 << 20
    """Size at which a spool is rotated; as Parquet it has about a fifth of it, less if rows are alike."""
    rotate_s: float = 300.0
    """Age at which a spool is rotated, in seconds."""
    max_bytes: int = 4 << 30
    """Total size of the Parquet files in the directory; the oldest are removed first."""
    max_age_s: float = 30 * 86_400.0
    """Age at which a Parquet file is removed, in seconds."""


class LogFiles:
    """Writes the batches of one log to files; used by the log's writer thread only.

    After a failed write the spool is closed and remains readable. A new one is tried after a second, then
    with backoff up to every 30 seconds. Until then all batches are lost, and a message reports the number of
    lost decisions when writing resumes.

    :param directory: the log's directory, which several processes may share.
    :param constants: columns with the same value in all rows; `run` and `system` are also partitions.
    :param name: part of the file names that is unique among processes.
    :param retention: rotation and retention.
    :param compacting: whether a thread of this process compacts spools and removes old files; otherwise
        another process does so (`tidying`).
    """

    def __init__(
        self,
        directory: Path,
        constants: Mapping[str, str | int],
        name: str,
        retention: Retention,
        *,
        compacting: bool,
    ) -> None:
        self.errors = 0
        """Times that writing, compacting or removing failed."""
        self.interned = Interned()
        """The id tables for the next line; each spool starts with empty ones."""
        self._directory = directory
        self._constants = constants
        self._folder = partition(directory, str(constants["run"]), str(constants["system"]))
        self._names = (f"part-{name}-{number:05d}" for number in itertools.count(1))
        self._retention = retention
        self._spool: Spool | None = None
        self._opened_ns = 0
        self._backoff = Backoff(_FIRST_RETRY_NS, _LONGEST_RETRY_NS)
        self._lost = 0
        """Decisions lost since writing started to fail."""
        self._compactor = ThreadPoolExecutor(1, "sluicegate-compaction") if compacting else None
        self._tidying: Future[None] | None = None
        self._tidied_ns = -TIDY_S * _SECOND_NS

    def begin_line(self) -> Interned:
        """The id tables for the next line; if the spool was moved or removed, those of a new one."""
        spool = self._spool
        if spool is not None and not spool.is_linked:
            _log.warning("decision spool %s was moved or removed, a new one is begun", spool.path)
            self._end_spool()
        self.interned.make_room()
        return self.interned

    def write(self, line: bytes, decisions: int, now_ns: int) -> bool:
        """Append a batch.

        :param line: the batch as `spool.encode` writes it, with ids of `interned`.
        :param decisions: number of decisions in it.
        :param now_ns: monotonic time.
        :return: False if it is lost.
        """
        if self._backoff.wait_ns(now_ns):
            # With the line, the ids are lost that it defines.
            self.interned = Interned()
            self._lost += decisions
            return False
        try:
            if self._spool is None:
                self._spool = Spool(self._folder, next(self._names), self._constants)
                self._opened_ns = now_ns
            self._spool.write(line)
        except OSError as error:
            self._failed(error, now_ns)
            self._lost += decisions
            return False
        self.interned.written()
        if self._backoff.failures:
            self._backoff.reset()
            _log.warning(
                "decision log is writable again, now %s; %d decisions were lost", self._spool.path, self._lost
            )
            self._lost = 0
        return True

    def rotate(self, now_ns: int, wall_s: float) -> None:
        """Rotate the spool if it is large or old enough; remove old files at first and now and then.

        :param now_ns: monotonic time.
        :param wall_s: seconds since 1970.
        """
        spool, is_due = self._spool, now_ns - self._tidied_ns >= TIDY_S * _SECOND_NS
        if spool is not None:
            age_s = (now_ns - self._opened_ns) / _SECOND_NS
            if spool.bytes >= self._retention.rotate_bytes or age_s >= self._retention.rotate_s:
                self._end_spool()
                is_due = True
        if is_due:
            self._tidied_ns = now_ns
            self.tidy(wall_s)

    def tidy(self, wall_s: float) -> None:
        """Start to compact spools and to remove old files, unless another process does so.

        :param wall_s: seconds since 1970.
        """
        if self._compactor is not None and (self._tidying is None or self._tidying.done()):
            self._tidying = self._compactor.submit(self._tidy, wall_s)

    def close(self, wall_s: float) -> None:
        """Close the spool and wait until it is compacted, unless another process does so.

        :param wall_s: seconds since 1970.
        """
        self._end_spool()
        if self._compactor is not None:
            self._compactor.submit(self._tidy, wall_s)
            self._compactor.shutdown(wait=True)

    def _failed(self, error: Exception, now_ns: int) -> None:
        self.errors += 1
        if not self._backoff.failures:
            _log.warning(
                "decision log cannot be written under %s: %s; rows are dropped and counted until it can, "
                "traffic continues",
                self._folder,
                error,
            )
        self._end_spool()
        self._backoff.failed(now_ns)

    def _end_spool(self) -> None:
        spool, self._spool = self._spool, None
        self.interned = Interned()
        if spool is None:
            return
        try:
            spool.close()
        except OSError as error:
            self.errors += 1
            _log.warning(
                "decision spool %s was not closed properly: %s; its rows can be read", spool.path, error
            )

    def _tidy(self, wall_s: float) -> None:
        from sluicegate.decisions.compaction import tidy  # loads Arrow, 40 MB

        for fault in tidy(self._directory, self._retention.max_bytes, self._retention.max_age_s, wall_s):
            self.errors += 1
            _log.warning("%s", fault)
