"""Faults of plugins: counted under their name; a check that keeps raising is skipped."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import iscoroutine
from reprlib import Repr
from typing import TypeVar

from sluicegate.engine.bucket import SECOND_NS
from sluicegate.engine.check import Check, CheckCall
from sluicegate.model import Mode

CAUGHT = BaseException
"""Exceptions of a plugin's function that do not end the gateway: all.

`CancelledError` or `KeyboardInterrupt` would end the event loop or a task of others, and nothing cancels a
function that does not wait. A gateway handles Ctrl-C as a signal; in an embedded engine, one that comes
within a plugin's call counts as the plugin's.
"""
_LONGEST_ERROR = 500
_MOST_OBJECTS = 1_000
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
_KIND_LENGTH = 100
FAULTS_TO_OPEN = 5
"""Consecutive faults after which a check is skipped."""
OPEN_NS = 30 * SECOND_NS
"""How long it is skipped before it is tried again."""

_repr = Repr()
_repr.maxother = _repr.maxstring = 80
Each = TypeVar("Each")


@dataclass(frozen=True, slots=True)
class Fault:
    """One exception of one check."""

    plugin: str
    policy: str
    topic: str
    error: str
    """The exception, as `TypeName: message`."""
    opened: bool
    """True if the check is skipped from now on for a while."""

    @property
    def kind(self) -> tuple[str, str, str]:
        """The key by which repeated faults are limited, with numbers masked."""
        return self.plugin, self.policy, _NUMBER.sub("0", self.error[:_KIND_LENGTH])


class GateFaults:
    """Counts of faults in checks, over all gates.

    :param report: called with each fault, for the log; it is bounded by the breakers.
    """

    __slots__ = ("_report", "counts", "last")

    def __init__(self, report: Callable[[Fault], None] | None = None) -> None:
        self.counts: dict[str, int] = {}
        """Faults by plugin."""
        self.last: dict[str, Fault] = {}
        """The last fault of each plugin."""
        self._report = report

    def unread(self, fault: Fault) -> None:
        """Count messages that a check could not read: no mistake of its own, so nothing is reported."""
        self._count(fault)

    def add(self, fault: Fault) -> None:
        """Count and report a fault."""
        self._count(fault)
        if self._report is not None:
            self._report(fault)

    def _count(self, fault: Fault) -> None:
        self.counts[fault.plugin] = self.counts.get(fault.plugin, 0) + 1
        self.last[fault.plugin] = fault


def plugin_of(check: Check) -> str:
    """The plugin of a check: its name, else the module that defines its callable."""
    return check.plugin or getattr(check.call, "__module__", None) or type(check.call).__module__


@dataclass(slots=True, eq=False)
class GuardedCheck:
    """A check as one gate runs it: to whom it applies, and whether it is skipped for its faults."""

    check: Check
    call: CheckCall
    """The check's own."""
    mode: Mode | None
    """To whom it applies; None for everybody."""
    faults: int = 0
    """Consecutive faults."""
    open_until_ns: int = 0
    suspect: bool = False
    """True once it has raised."""

    def is_skipped(self, now_ns: int) -> bool:
        """True while the check is not to be called."""
        return self.faults >= FAULTS_TO_OPEN and now_ns < self.open_until_ns

    def failed(self, now_ns: int) -> bool:
        """Record a fault; True if the check is skipped from now on, also after a failed retry."""
        self.suspect = True
        self.faults += 1
        if self.faults < FAULTS_TO_OPEN:
            return False
        self.open_until_ns = now_ns + OPEN_NS
        return True


def shown(value: object) -> str:
    """A short text for a value, even if its own representation fails; a coroutine is closed."""
    if iscoroutine(value):
        value.close()
        return "a coroutine (the function must not be async)"
    try:
        return _repr.repr(value)
    except CAUGHT:  # it is a plugin's
        return f"an object of type {type(value).__name__}"


def error_text(error: BaseException) -> str:
    """An exception of a plugin, as `TypeName: message`."""
    try:
        text = str(error)
    except CAUGHT:  # it is a plugin's
        text = "(its text cannot be had)"
    return f"{type(error).__name__}: {text[:_LONGEST_ERROR]}"


def several(made: object, hook: str, kind: type[Each]) -> list[Each]:
    """The list that a hook returned; None counts as an empty one.

    :param hook: its name, for the error.
    :param kind: what each of them must be.
    :raises TypeError: if it is no list, has an item of another kind, or too many.
    """
    if made is None:
        return []
    expected = f"expected a list of at most {_MOST_OBJECTS} {kind.__name__} objects"
    if isinstance(made, str | bytes) or not isinstance(made, Iterable):
        raise TypeError(f"{hook} gave {shown(made)}, {expected}")
    given: list[Each] = []
    for each in made:  # a generator may have no end
        if not isinstance(each, kind) or len(given) == _MOST_OBJECTS:
            raise TypeError(f"{hook} gave {shown(each)} in its list, {expected}")
        given.append(each)
    return given
