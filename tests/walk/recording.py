"""Records which files of the product a call passes through, by the interpreter's own profiling events."""

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

Result = TypeVar("Result")

_PARTS_OF_A_FUNCTION = frozenset({"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>"})
"""Frames that only some versions of Python make."""


@dataclass(frozen=True, slots=True)
class Stop:
    """One or more calls in a row of functions of the same file."""

    module: str
    function: str
    """The first of them."""


@dataclass(frozen=True, slots=True)
class Walk:
    """The way of one message through the product.

    Its files are those in which a function is called. It moves each time that a function is called in another
    file than the function called before it; a return is no move. A generator is called each time that it
    goes on. Code that is generated, such as a dataclass's constructor, is in no file.
    """

    stops: tuple[Stop, ...]

    @property
    def files(self) -> int:
        """Distinct files that it passes through."""
        return len({stop.module for stop in self.stops})

    @property
    def moves(self) -> int:
        """How often it comes from one file to another."""
        return len(self.stops) - 1

    def __add__(self, after: "Walk") -> "Walk":
        """This walk and the one that comes after it, as one."""
        ours, theirs = self.stops, after.stops
        if ours and theirs and ours[-1].module == theirs[0].module:
            theirs = theirs[1:]
        return Walk(ours + theirs)


def record(call: Callable[[], Result]) -> tuple[Walk, Result]:
    """Make a call and record its walk.

    :param call: what is recorded; events of other threads are not.
    :return: the walk, and what the call returned.
    """
    stops: list[Stop] = []

    def profile(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "call" or code.co_name in _PARTS_OF_A_FUNCTION or code.co_filename.startswith("<"):
            return
        module = frame.f_globals.get("__name__", "")
        is_ours = module.startswith("sluicegate") and not module.startswith("sluicegate.testing")
        if is_ours and (not stops or stops[-1].module != module):
            stops.append(Stop(module, code.co_qualname))

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # what others have left would be called wherever it is collected
    sys.setprofile(profile)
    try:
        result = call()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return Walk(tuple(stops)), result
