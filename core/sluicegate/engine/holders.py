"""Derives from a thread's stack what it is busy with, for the watchdog over the event loop.

Functions register here once, with what to read from their local variables. That costs them nothing: nothing
is called or stored before the watchdog samples the stack.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType
from typing import Any, Final, TypeAlias

OTHER: Final = "other"
_OWN = "sluicegate"
_ORDER: Final = ("policy", "plugin", "api", "work")
"""The most specific kind comes first."""

Describe: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, str]]
"""Local variables of a function -> some of `policy`, `plugin`, `api`, `work`, `client`, `topic`."""

_known: dict[CodeType, Describe] = {}


@dataclass(frozen=True, slots=True)
class Holder:
    """What a thread is busy with."""

    held_by: str
    """Such as `policy max_message_size`, `api kafka produce`; one of few, as it becomes a label."""
    at: str = ""
    """The innermost function of the product or a plugin of its own, as `module.function`."""
    details: Mapping[str, str] = field(default_factory=dict)
    """All that is known, by name."""


def tell_by(owner: type, method: str, describe: Describe) -> None:
    """Register a method whose frame shows what is being done.

    :param owner: the class that has it.
    :param method: its name.
    :param describe: must not change anything; its exceptions are ignored.
    :raises KeyError: if there is no such method.
    """
    function: FunctionType = vars(owner)[method]
    _known[function.__code__] = describe


def holder_of(frame: FrameType | None) -> Holder:
    """What a thread is busy with.

    :param frame: the innermost frame of its stack, as from `sys._current_frames`.
    """
    at = ""
    found: dict[str, str] = {}
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if not at and module.startswith(_OWN):
            at = f"{module}.{frame.f_code.co_qualname}"
        describe = _known.get(frame.f_code)
        if describe is not None:
            try:
                described = describe(frame.f_locals)
            except Exception:  # noqa: BLE001 - variables may not be there yet
                described = {}
            for name, value in described.items():
                if value:
                    found.setdefault(name, value)
        frame = frame.f_back
    held_by = next((f"{name} {found[name]}" for name in _ORDER if name in found), OTHER)
    return Holder(held_by, at, found)
