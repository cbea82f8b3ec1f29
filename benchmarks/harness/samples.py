"""Samples of measurements, and statistics over them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median


@dataclass(frozen=True, slots=True)
class Sample:
    """The values of one arm in one round of one scenario."""

    scenario: str
    arm: str
    round: int
    """1 and up; 0 is the cold round, which warms up every arm and is left out of medians."""
    values: Mapping[str, float]
    """Figures by name; the name ends with the unit."""


@dataclass(slots=True)
class Results:
    """All samples of one invocation, with skipped and failed measurements."""

    samples: list[Sample] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Reason by `scenario/arm`."""
    failed: list[str] = field(default_factory=list)
    """Measurements that went wrong, with the error."""

    def of(self, scenario: str, arm: str, value: str) -> dict[int, float]:
        """The value by round, without the cold one."""
        return {
            sample.round: sample.values[value]
            for sample in self.samples
            if (sample.scenario, sample.arm) == (scenario, arm) and sample.round and value in sample.values
        }

    def cold(self, scenario: str, arm: str, value: str) -> float | None:
        """The value of the cold round; None if there was none."""
        for sample in self.samples:
            if (sample.scenario, sample.arm, sample.round) == (scenario, arm, 0):
                return sample.values.get(value)
        return None


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def jain(shares: Sequence[float]) -> float:
    """Jain's fairness index: 1.0 if all shares are equal, 1/n if one has everything."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0


def window_errors(
    events: Iterable[tuple[float, float]], rate: float, *, first_s: float, last_s: float, width_s: float
) -> list[float]:
    """Error of each shifted window as a share of the rate (0.01 is one percent too much).

    :param events: time in s and amount.
    :param rate: amount per second that should have passed.
    :param first_s: start of the first window; windows start 100 ms apart.
    :param last_s: end of the last window.
    :param width_s: length of a window.
    """
    ordered = sorted(events)
    errors = []
    for step in range(int((last_s - width_s - first_s) * 10 + 1e-6) + 1):
        start = first_s + step / 10
        passed = sum(amount for at, amount in ordered if start <= at < start + width_s)
        errors.append(passed / (rate * width_s) - 1)
    return errors


def longest_gap(times: Iterable[float]) -> float:
    """The longest time between two neighbours; 0 for fewer than two."""
    ordered = sorted(times)
    return max((after - before for before, after in pairwise(ordered)), default=0.0)


def mid(values: Iterable[float]) -> float:
    """The median; 0 if there is nothing."""
    known = list(values)
    return median(known) if known else 0.0
