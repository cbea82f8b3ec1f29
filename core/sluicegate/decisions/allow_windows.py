"""Aggregates allowed operations in windows of 100 ms, so that an allow costs three additions.

One thread (the event loop) adds, another (the log's writer) collects, and neither waits for the other. The
adding thread only increments counters. The collecting thread remembers how much it has reported, so a count
that it reads too early is reported with the next window. No allow is lost or reported twice.
"""

from collections import deque
from typing import NamedTuple

from sluicegate.decisions.columns import WINDOW_MS
from sluicegate.decisions.cost import CostSampler, DecidedGate
from sluicegate.model import Operation, OperationKind

WINDOW_NS = WINDOW_MS * 1_000_000
_IDLE_NS = WINDOW_NS
"""A window is collected this long after its end if no later operation on the topic has closed it."""
_FORGET_NS = 100 * WINDOW_NS
"""The collector drops a tally that is unused for this long, which exceeds any lag of an event loop."""
_MAX_CLOSED = 65_536
_SWEEP_FROM = 1_024
_PUBLISH = OperationKind.PUBLISH


class Window(NamedTuple):
    """The allows of one gate and one kind of operation in one window."""

    start_ns: int
    gate: DecidedGate
    kind: OperationKind
    operations: int
    messages: int
    bytes: int
    cost_ns: int = 0
    """Duration of one of the decisions; 0 if none was timed."""


class Tally:
    """Monotonic counters of the allows of one gate and one kind of operation."""

    __slots__ = (
        "bytes",
        "cost_ns",
        "end_ns",
        "gate",
        "kind",
        "messages",
        "operations",
        "reported_bytes",
        "reported_messages",
        "reported_operations",
        "start_ns",
    )

    def __init__(self, gate: DecidedGate, kind: OperationKind) -> None:
        self.gate = gate
        self.kind = kind
        self.start_ns = self.end_ns = 0
        self.operations = self.messages = self.bytes = self.cost_ns = 0
        # Owned by the collecting thread; the counters above are owned by the adding thread.
        self.reported_operations = self.reported_messages = self.reported_bytes = 0

    def report(
        self, start_ns: int, operations: int, messages: int, nbytes: int, cost_ns: int
    ) -> Window | None:
        """Make a window of the counts since the last report; None if there are none."""
        new = operations - self.reported_operations
        if new <= 0:
            return None
        window = Window(
            start_ns,
            self.gate,
            self.kind,
            new,
            messages - self.reported_messages,
            nbytes - self.reported_bytes,
            cost_ns,
        )
        self.reported_operations, self.reported_messages, self.reported_bytes = operations, messages, nbytes
        return window


class AllowWindows:
    """The tallies of one log."""

    def __init__(self) -> None:
        self._published: dict[DecidedGate, Tally] = {}
        self._by_kind = [self._published if kind is _PUBLISH else {} for kind in OperationKind]
        self._closed: deque[tuple[Tally, int, int, int, int, int]] = deque()
        self._missed = False
        self._retired = 0
        self._sweep_at = _SWEEP_FROM
        self._live: set[Tally] = set()
        self._costs = CostSampler(self._note_cost)

    @property
    def decided(self) -> int:
        """Allows counted so far."""
        return self._retired + sum(
            tally.operations for tallies in self._by_kind for tally in list(tallies.values())
        )

    def allowed(self, gate: DecidedGate, op: Operation, now_ns: int) -> None:
        """Count one allowed operation (adding thread)."""
        tallies = self._published if op.kind is _PUBLISH else self._by_kind[op.kind]
        try:
            tally = tallies[gate]
        except KeyError:
            tally = self._add(tallies, gate, op.kind, now_ns)
        if now_ns >= tally.end_ns:
            self._open_window(tally, now_ns)
            if now_ns >= self._costs.next_ns and op.kind is _PUBLISH:
                self._costs.arm(gate, now_ns)
        tally.operations += 1
        tally.messages += op.messages
        tally.bytes += op.bytes

    def collect(self, now_ns: int) -> list[Window]:
        """Take the finished windows (collecting thread)."""
        windows = self._take_closed()
        if self._missed:
            self._missed = False
            for tallies in self._by_kind:
                self._live.update(list(tallies.values()))
        forgotten = []
        for tally in self._live:
            if tally.end_ns + _IDLE_NS <= now_ns:
                windows.extend(self._take_idle(tally))
                if tally.end_ns + _FORGET_NS <= now_ns:
                    forgotten.append(tally)
        self._live.difference_update(forgotten)
        return windows

    def collect_all(self) -> list[Window]:
        """Take all counts, including those of open windows (collecting thread, at shutdown)."""
        windows = self._take_closed()
        tallies = {tally for tallies in self._by_kind for tally in list(tallies.values())}
        for tally in tallies | self._live:
            windows.extend(self._take_idle(tally))
        return windows

    def _add(
        self, tallies: dict[DecidedGate, Tally], gate: DecidedGate, kind: OperationKind, now_ns: int
    ) -> Tally:
        if len(tallies) >= self._sweep_at:
            self._sweep(tallies, now_ns)
        tally = tallies[gate] = Tally(gate, kind)
        return tally

    def _open_window(self, tally: Tally, now_ns: int) -> None:
        self._close_window(tally)
        tally.start_ns = now_ns - now_ns % WINDOW_NS
        tally.end_ns = tally.start_ns + WINDOW_NS
        tally.cost_ns = 0

    def _note_cost(self, gate: DecidedGate, cost_ns: int) -> None:
        tally = self._published.get(gate)
        if tally is not None:
            tally.cost_ns = cost_ns

    def _close_window(self, tally: Tally) -> None:
        if len(self._closed) < _MAX_CLOSED:
            self._closed.append(
                (tally, tally.start_ns, tally.operations, tally.messages, tally.bytes, tally.cost_ns)
            )
        else:
            # Nothing is lost: the tally continues to count, and the collector scans all tallies.
            self._missed = True

    def _sweep(self, tallies: dict[DecidedGate, Tally], now_ns: int) -> None:
        """Drop references to replaced and evicted gates, which would otherwise never be freed."""
        idle = [gate for gate, tally in tallies.items() if tally.end_ns + _FORGET_NS <= now_ns]
        for gate in idle:
            if len(self._closed) >= _MAX_CLOSED:
                break
            tally = tallies.pop(gate)
            self._retired += tally.operations
            self._close_window(tally)
        self._sweep_at = max(_SWEEP_FROM, 2 * len(tallies))

    def _take_closed(self) -> list[Window]:
        windows = []
        for _ in range(len(self._closed)):
            tally, start_ns, *reading = self._closed.popleft()
            self._live.add(tally)
            window = tally.report(start_ns, *reading)
            if window is not None:
                windows.append(window)
        return windows

    @staticmethod
    def _take_idle(tally: Tally) -> list[Window]:
        start_ns = tally.start_ns
        reading = (tally.operations, tally.messages, tally.bytes, tally.cost_ns)
        if tally.start_ns != start_ns:
            return []  # it has just been used again: the window follows with the closed ones
        window = tally.report(start_ns, *reading)
        return [window] if window is not None else []
