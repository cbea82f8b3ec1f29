"""Counts and logs plugin calls that hold up the event loop.

Built-in checks are not timed: the benchmarks do that. Every call of other checks is, so that one slow call in
a thousand is found too. This costs such a check two readings of the clock.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic_ns, perf_counter_ns

from sluicegate.engine.check import Check
from sluicegate.engine.plugin_metrics import Metrics
from sluicegate.model import Decision, Operation
from sluicegate.pacing.log_throttle import LineLimiter

log = logging.getLogger(__name__)

SLOW_MS = 5
"""How long a call may take before it is logged, unless the file says otherwise."""
COUNTED, LONGEST = "sluicegate_plugin_slow_calls", "sluicegate_plugin_slowest_call_seconds"
"""Metrics, which are there once a call was slow."""
_LABELS = ("plugin", "policy")


class SlowCalls:
    """Counts and logs calls that took too long.

    :param slow_ms: from how many milliseconds on; 0 for never.
    :param metrics: gives where they are counted; None while there is nowhere.
    """

    def __init__(self, slow_ms: int, metrics: Callable[[], Metrics | None]) -> None:
        self._slow_ns = slow_ms * 1_000_000
        self._metrics = metrics
        self._longest: dict[tuple[str, str], float] = {}
        self._line_limiter = LineLimiter()

    def timed(self, check: Check, topic: str) -> Check:
        """Wrap a check so that each call is timed.

        :param topic: what it is asked about.
        """
        slow_ns, call, report = self._slow_ns, check.call, self._report
        if not slow_ns:
            return check
        plugin, policy = check.plugin, check.policy

        def timed_call(op: Operation, now_ns: int) -> Decision | None:
            # <hot> for every operation that this check is asked about
            began_ns = perf_counter_ns()
            try:
                return call(op, now_ns)
            finally:
                took_ns = perf_counter_ns() - began_ns
                if took_ns >= slow_ns:
                    report(plugin, policy, "a check", topic, took_ns)

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
            if self._slow_ns and took_ns >= self._slow_ns:
                self._report(plugin, "", what, topic, took_ns)

    def _report(self, plugin: str, policy: str, what: str, topic: str, took_ns: int) -> None:
        key = (plugin, policy)
        seconds = took_ns / 1e9
        metrics = self._metrics()
        if metrics is not None:
            slow = metrics.counter(COUNTED, "Calls of a plugin that held up the event loop.", _LABELS)
            slow.inc(1, *key)
            if seconds > self._longest.get(key, 0.0):
                self._longest[key] = seconds
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
