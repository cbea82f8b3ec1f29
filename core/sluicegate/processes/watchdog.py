"""A watchdog over a worker's event loop: it names what blocks the loop while it is blocked.

A thread asks the loop for a heartbeat. If none comes in time, it samples the stack of the loop's thread. So
the loop pays one callback for each question, and nothing for any message. Time in which the machine had no
processor for the loop does not count, where the kernel tells it (Linux).
"""

import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from threading import Lock, Thread, get_ident, get_native_id
from time import monotonic_ns
from typing import Final, Protocol

from sluicegate.pacing.log_throttle import LineLimiter
from sluicegate.processes.stacks import stack_of

log = logging.getLogger(__name__)

OTHER: Final = "other"
"""The label for stacks without a frame of the product or a plugin, and for modules beyond MOST_NAMES."""
MOST_NAMES: Final = 100
"""Modules that are counted apart."""
_LINE_NS = 10_000_000_000
_MS = 1_000_000
_LINE_BYTES = 100
"""Of a file in /proc that holds three numbers."""
_LOOKS = 2
"""Samples within the time after which a hold is logged."""


class _Loop(Protocol):
    def call_soon_threadsafe(self, callback: Callable[[], object]) -> object:
        """Make the loop call something."""


class Watchdog:
    """Watches one event loop; to be made in the loop's own thread.

    :param loop: the running event loop.
    :param longest_ns: how long the loop may be blocked before that is logged.
    :param packages: top-level packages of plugins, whose frames are shown beside the product's.
    :param clock: monotonic time.
    :param starved: ns that the loop's thread has waited for a processor so far.
    :param sample: gives the frames of the loop's thread, as `stack_of` does.
    """

    def __init__(
        self,
        loop: _Loop,
        longest_ns: int,
        packages: Collection[str] = (),
        *,
        clock: Callable[[], int] = monotonic_ns,
        starved: Callable[[], int] | None = None,
        sample: Callable[[], Sequence[str]] | None = None,
    ) -> None:
        self._loop = loop
        self._longest_ns = longest_ns
        self._clock = clock
        self._starved = starved or RunDelay(get_native_id())
        self._sample = sample or partial(stack_of, get_ident(), packages)
        self._asked_ns = 0
        self._starved_ns = 0
        self._stack: Sequence[str] = ()
        """Of the work that holds the loop now, once it was sampled."""
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
        asked_ns = self._asked_ns
        if not asked_ns:
            self._stack = ()
            self._starved_ns = self._starved()
            self._asked_ns = self._clock()
            self._loop.call_soon_threadsafe(self.answered)
            return
        if self._held_ns(asked_ns) < self._longest_ns:
            return
        stack = self._sample()
        if self._asked_ns != asked_ns:
            return  # it answered while its stack was sampled: now it does something else
        held_ns = self._held_ns(asked_ns)
        if held_ns < self._longest_ns:
            return  # it had no processor; the kernel says so once the thread runs again
        # Of several samples the first that names something counts; the loop may be between two tasks.
        self._stack = self._stack or stack
        self._log_hold(held_ns)

    def _held_ns(self, asked_ns: int) -> int:
        starved_ns = self._starved() - self._starved_ns
        return self._clock() - asked_ns - starved_ns

    def _log_hold(self, held_ns: int) -> None:
        left_out = self._line_limiter.passes(self._module, self._clock())
        if left_out is None:
            return
        fields = {"stack": ", ".join(self._stack), **({"left_out": left_out} if left_out else {})}
        log.warning(
            "event loop held for %d ms so far by %s; all clients wait",
            held_ns // _MS,
            self._stack[0] if self._stack else OTHER,
            extra=fields,
        )

    @property
    def _module(self) -> str:
        """The module of the innermost frame."""
        return self._stack[0].rpartition(".")[0] if self._stack else OTHER

    def answered(self) -> None:
        """Receive the heartbeat; called by the loop."""
        asked_ns, now_ns = self._asked_ns, self._clock()
        if now_ns - asked_ns >= self._longest_ns:  # only then is it worth asking the kernel
            held_ns = self._held_ns(asked_ns)
            if held_ns >= self._longest_ns:
                self._count(self._module, held_ns)
        self._asked_ns = 0

    def _count(self, name: str, held_ns: int) -> None:
        if name not in self._holds and len(self._holds) >= MOST_NAMES:
            name = OTHER
        count, total_ns = self._holds.get(name, (0, 0))
        self._holds[name] = count + 1, total_ns + held_ns

    def holds(self) -> Mapping[str, tuple[int, float]]:
        """How often the loop was held, and for how many seconds, by module."""
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
