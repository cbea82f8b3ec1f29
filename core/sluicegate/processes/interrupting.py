"""Makes the main thread call a function between two of its instructions, to sample its own stack.

One thread must not walk the stack of another that runs: CPython 3.11 was seen to end with a segmentation
fault in `frame.f_back`. `Py_AddPendingCall` has the main thread do it itself, as a signal handler would, but
without a signal, which system calls of other libraries would notice.
"""

import ctypes
import logging
import sys
from collections import deque
from collections.abc import Callable
from threading import Lock, get_ident, main_thread
from types import FrameType
from typing import TypeAlias

_log = logging.getLogger(__name__)

Look: TypeAlias = Callable[[FrameType | None], None]
"""Called with the innermost frame of the main thread. Exceptions are logged and not raised further."""

_looks: deque[Look] = deque()
_free = Lock()
"""Held while a call is pending. Two must not be pending at once: while one runs and another waits, CPython
3.11 restarts a traced function forever."""


def _call(_: object) -> int:
    frame = sys._getframe().f_back  # noqa: SLF001 - its documented use
    try:
        while _looks:
            _looks.popleft()(frame)
    except Exception:  # noqa: BLE001 - an exception would surface in the main thread
        _log.exception("sampling the main thread failed")
    finally:
        _free.release()
    return 0


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_called = _CALLBACK(_call)
"""Kept for the life of the process, as the interpreter keeps no reference to it."""
_add = ctypes.pythonapi.Py_AddPendingCall
_add.argtypes = (_CALLBACK, ctypes.c_void_p)
_add.restype = ctypes.c_int


def interrupt_main(look: Look) -> None:
    """Have the main thread call `look` soon: after its current instruction, even if that blocks.

    While an earlier `look` runs, this one may have to wait for the next interruption. If the interpreter has
    too many pending calls, it is never called.
    """
    _looks.append(look)
    if _free.acquire(blocking=False) and _add(_called, None) != 0:
        _looks.clear()
        _free.release()


def interrupt_nobody(look: Look) -> None:
    """For a thread that cannot be interrupted: call `look` at once, without a stack."""
    look(None)


def interruption() -> Callable[[Look], None]:
    """The way to sample the current thread: only the main one can be interrupted."""
    return interrupt_main if get_ident() == main_thread().ident else interrupt_nobody


__all__ = ["Look", "interrupt_main", "interrupt_nobody", "interruption"]
