"""The throughput of producers that send as fast as possible, compared with their limit."""

import itertools
from dataclasses import dataclass

from benchmarks.harness.samples import jain, longest_gap, window_errors

BURST_S = 1.0
"""Burst of the buckets, in seconds of their rate."""
SPENT_S = 3.0
"""Windows start here, when the initial burst has surely been spent."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """The acknowledgements of saturating producers."""

    start: float
    """Seconds (monotonic) just before the first of them sent; no record was admitted before."""
    times: list[list[float]]
    """Seconds (monotonic) of each acknowledgement, by producer."""
    failed: int
    """Records that ended in an error."""

    def figures(self, amount: float, rate: float, *, seconds: float, window_s: float) -> dict[str, float]:
        """How exactly, steadily and fairly the rate was enforced.

        :param amount: what each record counts, 1 or its bytes.
        :param rate: amount per second that should have passed.
        :param seconds: how long the producers went on.
        :param window_s: length of the shifted windows.
        :raises RuntimeError: if nothing was acknowledged.
        """
        by_producer = [[at - self.start for at in times] for times in self.times]
        together = sorted(itertools.chain.from_iterable(by_producer))
        if not together:
            raise RuntimeError(f"no record was acknowledged; {self.failed} failed")
        errors = window_errors(
            [(at, amount) for at in together], rate, first_s=SPENT_S, last_s=seconds, width_s=window_s
        )
        first_second = amount * sum(1 for at in together if at < 1)
        shares = [float(sum(1 for at in times if 0 <= at - SPENT_S < window_s)) for times in by_producer]
        return {
            "worst_window_error_percent": 100 * max(errors, key=abs),
            "mean_error_percent": 100 * sum(errors) / len(errors),
            "first_second_of_allowed": first_second / (rate * (1 + BURST_S)),
            "longest_gap_s": longest_gap(together),
            "longest_gap_of_a_producer_s": max(map(longest_gap, by_producer)),
            "jain": jain(shares),
            "failed_records": float(self.failed),
        }
