"""The checks that policy plugins give to the engine: plain callables, in a defined order."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from sluicegate.engine.switch import Switch
from sluicegate.model import Decision, Operation, OperationKind, Part

CheckCall: TypeAlias = Callable[[Operation, int], Decision | None]
"""`(operation, now_ns) -> None` to allow, or the decision. `now_ns` is monotonic."""

_PARTS = frozenset(Part)


class Stage(IntEnum):
    """When a check runs: cheap and final ones first, so that nothing refused is charged to a rate."""

    SIZE = 0
    COUNT = 1
    CUSTOM = 2
    RATE = 3
    ACCOUNT = 4
    """Bookkeeping: called only once everything before it allowed the operation, hence once for each."""


@dataclass(frozen=True, slots=True)
class Check:
    """One policy's part in the gate of one topic."""

    policy: str
    """Policy name, as in the file; decisions and metrics carry it."""
    kinds: tuple[OperationKind, ...]
    """The operations that it checks; it is not called for others."""
    call: CheckCall
    stage: Stage = Stage.CUSTOM
    fail_open: bool = True
    """What happens when `call` raises: True allows the operation, False rejects it."""
    plugin: str = ""
    """Name of the plugin it came from, filled in by the gateway; faults are counted under it."""
    largest: int | None = None
    """The check allows a publish whose largest message has at most this many bytes, without a call.

    Used for the first check of a gate, where a comparison then takes the place of a call."""
    switch: Switch | None = None
    """While it is off the gate does not call the check at all; None for a check that is always called."""
    reads: Collection[str] = ()
    """The parts of messages that it reads in `Operation.contents`: `headers`, `key`, `schema`, `value`. It is
    not called for messages that cannot be read: they pass or not as `fail_open` says, and are counted."""
    takes: bool = False
    """True for a check of Stage.RATE that charges its bucket as it allows: it is called after all others of
    the stage. Those only look whether they would allow, and charge by a second check in Stage.ACCOUNT."""

    def __post_init__(self) -> None:
        """Refuse what cannot be compiled into a gate.

        :raises TypeError: if a field is of another type than declared.
        """
        # A gate is compiled at each first use of a topic, so this is one condition and a bare loop.
        largest, kinds = self.largest, self.kinds
        if (
            type(self.policy) is not str
            or not self.policy
            or not callable(self.call)
            or type(self.stage) is not Stage
            or (largest is not None and (type(largest) is not int or largest < 0))
        ):
            raise TypeError(f"no usable check, see its fields: {self!r}")
        if unknown := [part for part in self.reads if part not in _PARTS]:
            raise TypeError(f"check {self.policy!r} reads {unknown[0]!r}, expected some of {', '.join(Part)}")
        for kind in kinds:
            if type(kind) is not OperationKind:
                raise TypeError(f"check {self.policy!r} has kind {kind!r}, expected an OperationKind")
