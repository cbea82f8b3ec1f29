"""`python -m sluicegate.decisions.tidying DIRECTORY MAX_BYTES MAX_AGE_S`: compacts spools once.

It is a process of its own because Arrow needs more memory than a whole worker.
"""

import os
import signal
import sys
import time
from pathlib import Path

_NICE = 10
"""Lowers the priority, so that traffic takes precedence."""


def main(arguments: list[str]) -> int:
    """Compact and prune one directory, and print each error as a line on standard error.

    :param arguments: directory, `max_bytes`, `max_age_s`.
    :return: the exit code, 1 after errors.
    """
    from sluicegate.decisions.compaction import tidy

    directory, max_bytes, max_age_s = arguments
    faults = tidy(Path(directory), int(max_bytes), float(max_age_s), time.time_ns() / 1e9)
    sys.stderr.writelines(f"{fault}\n" for fault in faults)  # noqa: TID251 - the parent logs them
    return 1 if faults else 0


def _prepare() -> None:
    """Minimize the process's memory and priority."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)  # they may reach all processes; the parent waits for this one
    os.nice(_NICE)
    # Arrow loads these two if they are installed, which takes longer than everything else, and does not need
    # them here. None marks a module as unavailable.
    sys.modules.update(dict.fromkeys(("numpy", "pandas")))  # type: ignore[arg-type]
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())  # half the memory of Arrow's own pools


if __name__ == "__main__":
    _prepare()
    sys.exit(main(sys.argv[1:]))
