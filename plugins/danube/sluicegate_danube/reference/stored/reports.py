"""A broker's load report, in Danube's words: CPU and memory in use, and its topics."""

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Collection

_PERCENT = 100.0


class Usage:
    """What this process uses of its host, in percent.

    :param now_s: monotonic time.
    :param cpu_s: CPU time of the process.
    """

    def __init__(
        self, now_s: Callable[[], float] = time.monotonic, cpu_s: Callable[[], float] = time.process_time
    ) -> None:
        self._now_s, self._cpu_s = now_s, cpu_s
        self._last = now_s(), cpu_s()

    def cpu(self) -> float:
        """Share of all CPUs since the last call; 0 if no time has passed."""
        (before_s, used_s), self._last = self._last, (self._now_s(), self._cpu_s())
        passed_s = (self._last[0] - before_s) * (os.cpu_count() or 1)
        return min(_PERCENT, _PERCENT * (self._last[1] - used_s) / passed_s) if passed_s > 0 else 0.0

    def memory(self) -> float:
        """Share of the host's memory, at its highest so far."""
        unit = 1 if sys.platform == "darwin" else 1024
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        return min(_PERCENT, _PERCENT * peak / (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))


def report_value(cpu: float, memory: float, topics: Collection[str]) -> bytes:
    """The value at `/cluster/load/{broker}`.

    :param cpu: in use, in percent, as `memory`.
    """
    usages = [{"resource": "CPU", "usage": round(cpu, 1)}, {"resource": "Memory", "usage": round(memory, 1)}]
    return json.dumps(
        {"resources_usage": usages, "topics_len": len(topics), "topic_list": sorted(topics)}
    ).encode()
