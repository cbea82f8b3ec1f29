"""Samples the stack of a thread: which functions of the product and of plugins it is in.

faulthandler writes the stacks without giving the interpreter lock away. So a thread is sampled from another
one while it runs and while it waits outside of Python. To walk its frames from there is not safe: CPython
3.11 was seen to end with a segmentation fault in `frame.f_back`.
"""

import faulthandler
import os
import re
import sys
from collections.abc import Collection
from typing import Final

_OWN = "sluicegate"
_MOST_FRAMES = 6
_PIPE_BYTES = 65_536
_FRAME: Final = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


def frames_in(text: str) -> list[tuple[str, int, str]]:
    """File, line and function of each frame that faulthandler has written, innermost first."""
    return [(file, int(line), function) for file, line, function in _FRAME.findall(text)]


def stack_of(thread_id: int, packages: Collection[str]) -> list[str]:
    """The innermost frames of a thread that belong to the product or to some packages.

    :param thread_id: as of `threading.get_ident`; not the caller's.
    :param packages: top-level packages, such as those of plugins.
    :return: `module.function:line`, innermost first; empty if there are none, or no descriptor for a pipe.
    """
    try:
        text = _written()
    except OSError:
        return []
    _, _, rest = text.partition(f"Thread 0x{thread_id:016x} ")
    own, _, _ = rest.partition("\n\n")
    names = _modules(packages)
    frames = [(names.get(file), function, line) for file, line, function in frames_in(own)]
    return [f"{module}.{function}:{line}" for module, function, line in frames if module][:_MOST_FRAMES]


def _written() -> str:
    """The stacks of all threads, in as far as a pipe takes them."""
    ours, theirs = os.pipe()
    try:
        for end in (ours, theirs):  # nothing is read while it is written
            os.set_blocking(end, False)
        faulthandler.dump_traceback(theirs)
        return os.read(ours, _PIPE_BYTES).decode()
    finally:
        os.close(ours)
        os.close(theirs)


def _modules(packages: Collection[str]) -> dict[str, str]:
    """Modules by the name of their file as faulthandler writes it."""
    return {
        file.encode("ascii", "backslashreplace").decode(): name
        # A copy, as other threads import meanwhile.
        for name, module in list(sys.modules.items())
        if ((top := name.partition(".")[0]) in packages or top.startswith(_OWN))
        and (file := getattr(module, "__file__", None))
    }
