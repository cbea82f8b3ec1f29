"""A watchdog over a worker's event loop: it names what blocks the loop while it is blocked.

A thread asks the loop for a heartbeat. If none comes in time, it has the loop's thread look at its own
stack (`interrupting`). So the loop pays one callback for each question, and nothing for any message. Time in
which the machine had no processor for the loop does not count, where the kernel tells it (Linux).
"""

import logging
import os
from collections.abc import Callable, Mapping
from threading import Lock, Thread, get_native_id
from time import monotonic_ns
from types import FrameType
from typing import Final, Protocol

from sluicegate.engine.holders import OTHER, Holder, holder_of
from sluicegate.log_throttle import LineLimiter
from sluicegate.processes.interrupting import Look, interruption

log = logging.getLogger(__name__)

MOST_NAMES: Final = 100
"""Names that are counted apart; all further ones are `other`."""
_LINE_NS = 10_000_000_000
_MS = 1_000_000
_LINE_BYTES = 100
"""Of a file in /proc that holds three numbers."""
_PATIENCE_S = 0.05
"""A thread in Python code samples itself within 5 ms, one in C code only after the call."""
_LOOKS = 2
"""Samples within the time after which a hold is logged."""


class _Loop(Protocol):
    def call_soon_threadsafe(self, callback: Callable[[], object]) -> object:
        """Make the loop call something."""


class _Look:
    """One look at what the loop's thread is busy with."""

    __slots__ = ("_waiting", "seen")

    def __init__(self) -> None:
        self.seen: Holder | None = None
        """None until the thread could look."""
        self._waiting = Lock()
        self._waiting.acquire()

    def __call__(self, frame: FrameType | None) -> None:
        """Called by the thread itself."""
        try:
            self.seen = holder_of(frame)
        finally:
            self._waiting.release()

    def wait(self) -> Holder:
        """The sample; unknown if the thread does not take it in time."""
        self._waiting.acquire(timeout=_PATIENCE_S)
        return self.seen or Holder(OTHER)


class Watchdog:
    """Watches one event loop; to be made in the loop's own thread.

    :param loop: the running event loop.
    :param longest_ns: how long the loop may be blocked before that is logged.
    :param clock: monotonic time.
    :param starved: ns that the loop's thread has waited for a processor so far.
    :param interrupt: has the loop's thread call something with its innermost frame, see `interrupting`.
    """

    def __init__(
        self,
        loop: _Loop,
        longest_ns: int,
        *,
        clock: Callable[[], int] = monotonic_ns,
        starved: Callable[[], int] | None = None,
        interrupt: Callable[[Look], None] | None = None,
    ) -> None:
        self._loop = loop
        self._longest_ns = longest_ns
        self._clock = clock
        self._starved = starved or RunDelay(get_native_id())
        self._interrupt = interrupt or interruption()
        self._asked_ns = 0
        self._starved_ns = 0
        self._holder: Holder | None = None
        self._look: _Look | None = None
        self._holds: dict[str, tuple[int, int]] = {}
        self._line_limiter = LineLimiter(_LINE_NS)
        self._running = Lock()
        """Held until the thread must stop: waiting for it costs a fraction of waiting for an Event."""
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._running.acquire(blocking=False)  # after a stop the last thread still uses it
        self._thread = Thread(target=self._watch, name="sluicegate-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; idempotent."""
        if self._thread is not None:
            self._running.release()
            self._thread.join()
            self._thread = None

    def _watch(self) -> None:
        wait_s = self._longest_ns / _LOOKS / 1e9
        while not self._running.acquire(timeout=wait_s):
            try:
                self.look()
            except RuntimeError:  # the loop is closed
                return

    def look(self) -> None:
        """Ask the loop for a heartbeat, or sample its stack if one is overdue; in the watchdog's thread.

        :raises RuntimeError: if the loop is closed.
        """
        if not self._asked_ns:
            self._starved_ns = self._starved()
            self._asked_ns = self._clock()
            self._loop.call_soon_threadsafe(self.answered)
            return
        if self._held_ns() < self._longest_ns:
            return
        asked_ns = self._asked_ns
        self._look = look = _Look()
        self._interrupt(look)
        holder = look.wait()
        if not asked_ns or self._asked_ns != asked_ns:
            return  # it answered while its stack was sampled: now it does something else
        held_ns = self._held_ns()
        if held_ns < self._longest_ns:
            return  # it had no processor; the kernel says so once the thread runs again
        # Of several samples the first that names something counts; the loop may be between two tasks.
        if self._holder is None or self._holder.held_by == OTHER:
            self._holder = holder
        self._log_hold(self._holder, held_ns)

    def _held_ns(self) -> int:
        starved_ns = self._starved() - self._starved_ns
        return self._clock() - self._asked_ns - starved_ns

    def _log_hold(self, holder: Holder, held_ns: int) -> None:
        left_out = self._line_limiter.passes(holder.held_by, self._clock())
        if left_out is None:
            return
        fields: dict[str, object] = {"held_by": holder.held_by, "at": holder.at, **holder.details}
        if left_out:
            fields["left_out"] = left_out
        log.warning(
            "event loop held for %d ms so far by %s; all clients wait",
            held_ns // _MS,
            holder.held_by,
            extra=fields,
        )

    def answered(self) -> None:
        """Receive the heartbeat; called by the loop."""
        holder, self._holder = self._holder, None
        look, self._look = self._look, None
        late = look.seen if look is not None and (holder is None or holder.held_by == OTHER) else None
        holder = late or holder
        asked_ns, now_ns = self._asked_ns, self._clock()
        if now_ns - asked_ns >= self._longest_ns:  # only then is it worth asking the kernel
            held_ns = self._held_ns()
            if held_ns >= self._longest_ns:
                self._count(holder.held_by if holder is not None else OTHER, held_ns)
                if late is not None:  # it was in C code, and sampled its stack once that returned
                    self._log_hold(late, held_ns)
        self._asked_ns = 0

    def _count(self, name: str, held_ns: int) -> None:
        if name not in self._holds and len(self._holds) >= MOST_NAMES:
            name = OTHER
        count, total_ns = self._holds.get(name, (0, 0))
        self._holds[name] = count + 1, total_ns + held_ns

    def holds(self) -> Mapping[str, tuple[int, float]]:
        """How often the loop was held, and for how many seconds, by what held it."""
        return {name: (count, total_ns / 1e9) for name, (count, total_ns) in self._holds.items()}


class RunDelay:
    """How long a thread has waited for a processor, in ns; 0 where the kernel does not say.

    The file is opened once, as it is read before each question to the loop.

    :param native_id: of the thread, one of this process.
    """

    __slots__ = ("_file",)

    def __init__(self, native_id: int) -> None:
        try:
            self._file = os.open(f"/proc/self/task/{native_id}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = -1

    def __call__(self) -> int:
        """Read the time."""
        if self._file < 0:
            return 0
        try:
            return int(os.pread(self._file, _LINE_BYTES, 0).split()[1])
        except (OSError, IndexError, ValueError):
            self.close()
            return 0

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
