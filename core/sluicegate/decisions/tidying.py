"""`python -m sluicegate.decisions.tidying DIRECTORY MAX_BYTES MAX_AGE_S`: spools become Parquet, once.

A process that lives for that only: Arrow takes more memory than all of a worker that decides.
"""

import os
import signal
import sys
import time
from pathlib import Path

_NICE = 10
"""Traffic goes first."""


def main(arguments: list[str]) -> int:
    """Tidy one directory; what went wrong goes to standard error, a line each.

    :param arguments: directory, `max_bytes`, `max_age_s`.
    :return: exit code: 1 if anything went wrong.
    """
    from sluicegate.decisions.compaction import tidy

    directory, max_bytes, max_age_s = arguments
    faults = tidy(Path(directory), int(max_bytes), float(max_age_s), time.time_ns() / 1e9)
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    return 1 if faults else 0


def _prepare() -> None:
    """Make the process as small as can be."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent waits for this one
    os.nice(_NICE)
    # Arrow loads these two wherever they are installed, which takes longer than all else here, and needs
    # neither for this: None in their place is how Python says that a module is not available.
    sys.modules.update(dict.fromkeys(("numpy", "pandas")))  # type: ignore[arg-type]
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())  # half of what Arrow's own pools keep for later


if __name__ == "__main__":
    _prepare()
    sys.exit(main(sys.argv[1:]))
