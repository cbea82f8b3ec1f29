"""Hides the output of Spark's own process, unless the user asks for it."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

ASKED = "SLUICEGATE_SPARK_OUTPUT"
"""Variable that has Spark print what it wants to if it is 1."""
_TAIL = 4_000
"""Bytes of it that are shown where Spark does not start."""


@contextmanager
def quiet() -> Iterator[None]:
    """Let a process that is started within the block write its errors to a file without a name.

    Spark's JVM inherits standard error when it starts, and keeps it. This process has its own back after the
    block. If the block fails, the end of what was written is printed.
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
