"""Have the main thread call something between two of its instructions, and so look at its own stack.

One thread must not walk the stack of another that runs: CPython 3.11 was seen to end with a segmentation
fault in `frame.f_back`. `Py_AddPendingCall` has the main thread do it itself, as a signal handler would, but
without a signal, which system calls of other libraries would notice.
"""

import ctypes
import sys
from collections import deque
from collections.abc import Callable
from threading import get_ident, main_thread
from types import FrameType
from typing import TypeAlias

Look: TypeAlias = Callable[[FrameType | None], None]
"""Called with the innermost frame of the main thread. What it raises is printed, and goes no further."""

_looks: deque[Look] = deque()


def _call(_: object) -> int:
    if _looks:
        _looks.popleft()(sys._getframe().f_back)  # noqa: SLF001 - the way to ask
    return 0


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_called = _CALLBACK(_call)
"""Kept for as long as the process lives, as the interpreter keeps no reference to it."""
_add = ctypes.pythonapi.Py_AddPendingCall
_add.argtypes = (_CALLBACK, ctypes.c_void_p)
_add.restype = ctypes.c_int


def interrupt_main(look: Look) -> None:
    """Have the main thread call `look` soon: after its present instruction, even if that waits for long.

    It is never called if too many such calls are waiting already.
    """
    _looks.append(look)
    if _add(_called, None) != 0:
        _looks.remove(look)


def interrupt_nobody(look: Look) -> None:
    """For a thread that cannot be interrupted: `look` learns at once that nothing is known."""
    look(None)


def interruption() -> Callable[[Look], None]:
    """The way to look at the present thread: only the main one can be interrupted."""
    return interrupt_main if get_ident() == main_thread().ident else interrupt_nobody


__all__ = ["Look", "interrupt_main", "interrupt_nobody", "interruption"]
