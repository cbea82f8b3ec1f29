"""The stateless arithmetic of adaptive throttling, from pressure to the rate of the next cycle.

The expressions are those of Apache Pulsar's pull request 25239 ("Add adaptive publish throttle controller"),
including rounding and edge cases.
"""

from math import floor


def linear_pressure(value: float, low: float, high: float) -> float:
    """The pressure of a signal: 0.0 up to `low`, 1.0 from `high`, linear in between.

    :param value: the signal, such as used memory as a fraction of its limit.
    :param low: low watermark, inclusive.
    :param high: high watermark, inclusive; if it is not above `low`, the pressure is a step at `low`.
    """
    if value <= low:
        return 0.0
    if value >= high:
        return 1.0
    return (value - low) / (high - low)


def backlog_pressure(nbytes: float, quota_bytes: float, low: float, high: float) -> float:
    """The pressure of a topic's backlog, 0.0 to 1.0; 0.0 if the topic has no quota (0 or less)."""
    return linear_pressure(nbytes / quota_bytes, low, high) if quota_bytes > 0 else 0.0


def floor_rate(natural: float, min_factor: float) -> int:
    """The lowest rate that throttling sets: a fraction of the natural rate, at least 1."""
    return max(1, floor(natural * min_factor))


def ideal_rate(natural: float, pressure: float, min_factor: float) -> int:
    """The target rate for a pressure, at least 1.

    :param natural: the producers' rate without throttling, per second; 0 gives 1.
    :param min_factor: fraction of the natural rate that remains at full pressure.
    """
    return max(1, floor(natural * (1.0 - pressure * (1.0 - min_factor))))


def next_rate(natural: float, current: int, pressure: float, min_factor: float, step: float) -> int:
    """The rate of the next cycle: a bounded step towards the target rate.

    :param natural: the producers' rate without throttling, per second; 0 gives 1.
    :param current: the current limit; 0 if there is none, and the natural rate is the starting point.
    :param min_factor: fraction of the natural rate that always remains.
    :param step: largest change in one cycle, as a fraction of the natural rate.
    """
    if natural <= 0:
        return 1
    ideal = ideal_rate(natural, pressure, min_factor)
    largest = max(1, floor(natural * step))
    base = current if current > 0 else floor(natural)
    moved = max(ideal, base - largest) if ideal < base else min(ideal, base + largest)
    return max(moved, floor_rate(natural, min_factor))
