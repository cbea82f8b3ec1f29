"""Hides the output of Spark's own process, unless the user asks for it."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

ASKED = "SLUICEGATE_SPARK_OUTPUT"
"""Environment variable that shows Spark's output if it is 1."""
_TAIL = 4_000
"""Bytes of the output that are shown if Spark does not start."""


@contextmanager
def quiet() -> Iterator[None]:
    """Send standard error of processes that are started within the block to an anonymous file.

    Spark's JVM inherits standard error when it starts, and keeps it. This process gets its own back after the
    block. If the block fails, the end of the file is printed.
    """
    if os.environ.get(ASKED) == "1":
        yield
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as kept:
        own = os.dup(2)
        try:
            os.dup2(kept.fileno(), 2)
            try:
                yield
            finally:
                sys.stderr.flush()
                os.dup2(own, 2)
        except BaseException:
            os.write(2, _end(kept.fileno()))
            raise
        finally:
            os.close(own)


def _end(file: int) -> bytes:
    size = os.fstat(file).st_size
    return os.pread(file, _TAIL, max(0, size - _TAIL))
