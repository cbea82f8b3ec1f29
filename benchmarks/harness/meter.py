"""CPU time and memory of a proxy for one piece of work, with the relaying process apart from the others."""

from benchmarks.harness import procfs
from benchmarks.harness.processes import Child

_MB = 1e6


class Meter:
    """CPU seconds and peak memory of a proxy since the meter was made.

    :param proxy: the root of its processes; None where there is no proxy, which then takes nothing.
    """

    def __init__(self, proxy: Child | None) -> None:
        self._proxy = proxy
        self._before: dict[int, float] = {}
        if proxy is not None:
            procfs.forget_peaks(proxy.pid)
            self._before = procfs.cpu_seconds_each(proxy.pid)

    def per_100k(self, messages: int) -> dict[str, float]:
        """CPU seconds of the whole tree for 100,000 messages, and memory in MB of 10^6 bytes.

        The process that worked most is the one that relays; `supervisor_rss_mb` and `sum_rss_mb` are there
        only where it has others beside it. Their peaks need not have come at the same time.

        :raises RuntimeError: if the proxy has ended.
        """
        if self._proxy is None:
            return {}
        used = {
            pid: seconds - self._before.get(pid, 0.0)
            for pid, seconds in procfs.cpu_seconds_each(self._proxy.pid).items()
        }
        peaks = procfs.peak_bytes_each(self._proxy.pid)
        if not peaks:
            raise RuntimeError(f"{self._proxy.name} has ended; its output is in {self._proxy.log}")
        relays = max(peaks, key=lambda pid: used.get(pid, 0.0))
        values = {"cpu_s_per_100k": sum(used.values()) * 100_000 / messages, "rss_mb": peaks[relays] / _MB}
        if len(peaks) > 1:
            values["supervisor_rss_mb"] = peaks.get(self._proxy.pid, 0) / _MB
            values["sum_rss_mb"] = sum(peaks.values()) / _MB
        return values
