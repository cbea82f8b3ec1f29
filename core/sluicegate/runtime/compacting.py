"""Runs a separate process that compacts the decision log into Parquet files.

Workers finish their spools and continue; killed ones leave theirs behind. File locks show which are free.
"""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from time import monotonic

from sluicegate.config.models import GatewayConfig
from sluicegate.decisions.files import TIDY_S
from sluicegate.decisions.spool import ended, parquet_files
from sluicegate.host.children import python_command

log = logging.getLogger(__name__)

_PERIOD_S = 5.0
_LONGEST_PERIOD_S = 300.0
"""After failures, such as a full disk, it is tried less and less often."""


def log_directory(config: GatewayConfig) -> Path:
    """Where the decision log of a gateway is."""
    return Path(config.decisions.directory or Path(config.state_dir) / "decisions")


class Compactor:
    """Looks for finished spools now and then, and has them compacted into Parquet.

    :param config: says where the decision log is and how long it is kept.
    """

    def __init__(self, config: GatewayConfig) -> None:
        self._enabled = config.decisions.enabled
        self._directory = log_directory(config)
        keep = config.decisions
        self._process: asyncio.subprocess.Process | None = None
        self._known: set[str] = set()
        """What the last look found wrong; it was logged when it was new."""
        self._arguments = (str(self._directory), str(keep.retention_size), str(keep.retention_age / 1000))

    async def watch(self) -> None:
        """Compact finished spools until cancelled; at first and now and then remove old files without one."""
        if not self._enabled:
            return
        period_s, prune_at = _PERIOD_S, monotonic()
        while True:
            is_due = monotonic() >= prune_at
            if is_due:
                prune_at = monotonic() + TIDY_S
            if await self._look(parquet_too=is_due):
                period_s = _PERIOD_S if await self._run() else min(2 * period_s, _LONGEST_PERIOD_S)
            await asyncio.sleep(period_s)

    async def finish(self, deadline_s: float) -> None:
        """Compact finished spools once; the rest is left for the next start.

        :param deadline_s: longest time for it.
        """
        if not self._enabled:
            return
        if await self._look():
            with suppress(TimeoutError):
                async with asyncio.timeout(deadline_s):
                    await self._run()

    def kill(self) -> None:
        """End it at once; spools are left for the next start."""
        self._enabled = False
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def _look(self, *, parquet_too: bool = False) -> bool:
        """Look for finished spools, and log what cannot be looked at, once.

        :param parquet_too: whether Parquet files count too, as some may be too old.
        :return: whether there are any.
        """
        try:
            files, faults = await asyncio.to_thread(ended, self._directory)
            if parquet_too:
                files += await asyncio.to_thread(parquet_files, self._directory)
        except OSError as error:  # such as too many open files
            files, faults = [], [f"decision log {self._directory} cannot be looked through for now: {error}"]
        for fault in faults:
            if fault not in self._known:
                log.warning("%s", fault)
        self._known = set(faults)
        return bool(files)

    async def _run(self) -> bool:
        """Run the process to its end; kill it when cancelled.

        :return: whether all went well, but for what is known already.
        """
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                *python_command("sluicegate.decisions.tidying", *self._arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            log.warning("decision spools stay for now, no process can be started: %s", error.strerror)
            return False
        if not self._enabled:  # killed while it started
            self.kill()
        try:
            _, errors = await process.communicate()
        except BaseException:
            with suppress(ProcessLookupError):
                process.kill()
            # Even if this is cancelled: a process that is not waited for stays as a zombie.
            await process.wait()
            raise
        complaints = errors.decode(errors="replace").splitlines()
        news = [line for line in complaints if line not in self._known]
        for line in news:
            log.warning("%s", line)
        return process.returncode == 0 or (complaints != [] and not news)
