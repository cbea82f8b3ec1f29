"""Times the calls of plugins; counts and logs those that hold up the event loop.

Built-in checks are not timed: the benchmarks do that. Every call of other checks is, so that one slow call in
a thousand is found too. This costs such a check two readings of the clock. For the mean, one call in 64 is
added up: counting each would cost twice as much as counting down to the next.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import monotonic_ns, perf_counter_ns
from typing import Any

from sluicegate.engine.check import Check
from sluicegate.engine.plugin_metrics import Metrics
from sluicegate.model import Decision, Operation
from sluicegate.pacing.log_throttle import LineLimiter
from sluicegate.runtime.plugin_metrics import LABEL_SETS, OTHER

log = logging.getLogger(__name__)

SLOW_MS = 5
"""How long a call may take before it is logged, unless the file says otherwise."""
COUNTED, LONGEST = "sluicegate_plugin_slow_calls", "sluicegate_plugin_slowest_call_seconds"
"""Metrics, which are there once a call was slow."""
_LABELS = ("plugin", "policy")
_SAMPLED = 64
"""One call of a check in so many is added up."""


@dataclass(slots=True, eq=False)
class CallTimes:
    """How long one policy's checks, or one hook of a plugin, take."""

    notable_ns: int = 0
    """A call that takes this long is either the longest so far or a slow one."""
    left: int = 1
    """Calls until the next one that is added up; the first one is."""
    sampled: int = 0
    """Calls that were added up."""
    sampled_ns: int = 0
    longest_ns: int = 0
    """Of all calls."""

    def add(self, took_ns: int, until_next: int) -> None:
        """Add a call up."""
        self.sampled += 1
        self.sampled_ns += took_ns
        self.left = until_next


class SlowCalls:
    """Times calls; counts and logs those that took too long.

    :param slow_ms: from how many milliseconds on; 0 for never, and then checks are not timed at all.
    :param metrics: gives where they are counted; None while there is nowhere.
    """

    def __init__(self, slow_ms: int, metrics: Callable[[], Metrics | None]) -> None:
        self._slow_ns = slow_ms * 1_000_000
        self._metrics = metrics
        self._slowest: dict[tuple[str, str], float] = {}
        self._times: dict[tuple[str, str], CallTimes] = {}
        self._line_limiter = LineLimiter()

    def snapshot(self) -> list[dict[str, Any]]:
        """The times so far, as JSON; `call` is the policy of checks, or what the log names."""
        return [
            {
                "plugin": plugin,
                "call": call,
                "sampled": times.sampled,
                "sampled_ns": times.sampled_ns,
                "longest_ns": times.longest_ns,
            }
            for (plugin, call), times in tuple(self._times.items())
        ]

    def timed(self, check: Check, topic: str) -> Check:
        """Wrap a check so that each call is timed.

        :param topic: what it is asked about.
        """
        call, note = check.call, self._note
        if not self._slow_ns:
            return check
        plugin, policy = check.plugin, check.policy
        times = self._times_of(plugin, policy)

        def timed_call(op: Operation, now_ns: int) -> Decision | None:
            # <hot> for every operation that this check is asked about
            began_ns = perf_counter_ns()
            try:
                return call(op, now_ns)
            finally:
                took_ns = perf_counter_ns() - began_ns
                times.left -= 1
                if not times.left:
                    times.add(took_ns, _SAMPLED)
                if took_ns >= times.notable_ns:
                    note(times, took_ns, plugin, policy, "a check", topic)

        return replace(check, call=timed_call)

    @contextmanager
    def watching(self, plugin: str, what: str, topic: str = "") -> Iterator[None]:
        """Time the block.

        :param plugin: whose code it is.
        :param what: what is called, for the log: a hook's name.
        """
        began_ns = perf_counter_ns()
        try:
            yield
        finally:
            took_ns = perf_counter_ns() - began_ns
            times = self._times_of(plugin, what)
            times.add(took_ns, 1)
            if took_ns >= times.notable_ns:
                self._note(times, took_ns, plugin, "", what, topic)

    def _times_of(self, plugin: str, call: str) -> CallTimes:
        times = self._times.get((plugin, call))
        if times is None:
            # Plugins choose the names of their policies, so these are bounded.
            key = (plugin, call if len(self._times) < LABEL_SETS else OTHER)
            times = self._times.setdefault(key, CallTimes())
        return times

    def _note(self, times: CallTimes, took_ns: int, plugin: str, policy: str, what: str, topic: str) -> None:
        slow_ns = self._slow_ns
        times.longest_ns = max(times.longest_ns, took_ns)
        times.notable_ns = min(times.longest_ns + 1, slow_ns or times.longest_ns + 1)
        if took_ns >= slow_ns > 0:
            self._report(plugin, policy, what, topic, took_ns)

    def _report(self, plugin: str, policy: str, what: str, topic: str, took_ns: int) -> None:
        key = (plugin, policy)
        metrics = self._metrics()
        if metrics is not None:
            metrics.counter(COUNTED, "Calls of a plugin that held up the event loop.", _LABELS).inc(1, *key)
            seconds = self._slowest[key] = max(took_ns / 1e9, self._slowest.get(key, 0.0))
            metrics.gauge(LONGEST, "The longest of these calls.", _LABELS).set(seconds, *key)
        left_out = self._line_limiter.passes(key, monotonic_ns())
        if left_out is not None:
            log.warning(
                "%s of plugin %s took %.1f ms, and all clients of the broker waited",
                what,
                plugin,
                took_ns / 1e6,
                extra={"policy": policy, "topic": topic, "left_out": left_out},
            )
