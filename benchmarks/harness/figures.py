"""The figures that the project holds itself to, each computed within one run: `figures.toml` has them."""

import operator
import tomllib
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.names import SLUICEGATE
from benchmarks.harness.samples import Results, mid


@dataclass(frozen=True, slots=True)
class Figure:
    """A bound on one value, as a rule on its median, alone or set against another arm of the same round."""

    text: str
    scenario: str
    value: str
    bound: float
    unit: str
    arm: str = SLUICEGATE
    against: str = ""
    """The other arm; empty for the value alone."""
    difference: bool = False
    """True if the other arm's value is subtracted; otherwise this one is divided by it."""
    since: str = ""
    """Another scenario, whose median for the same arm this one is divided by; empty for none."""
    at_least: bool = False
    """True if the bound is the least allowed value, not the largest."""
    magnitude: bool = False
    """True if the sign of the value does not matter."""
    worst: bool = False
    """True if every round has to keep the bound, not only the median."""

    def measured(self, results: Results) -> float | None:
        """Median over the rounds, or the worst; None if a needed arm was not measured."""
        mine = results.of(self.scenario, self.arm, self.value)
        values = list(mine.values())
        if self.against:
            other = results.of(self.scenario, self.against, self.value)
            combine = operator.sub if self.difference else operator.truediv
            values = [combine(mine[at], other[at]) for at in sorted(mine.keys() & other.keys()) if other[at]]
        if not values:
            return None
        if self.magnitude:
            values = [abs(value) for value in values]
        if self.worst:
            return min(values) if self.at_least else max(values)
        if self.since:
            before = list(results.of(self.since, self.arm, self.value).values())
            return mid(values) / mid(before) if before else None
        return mid(values)

    def met(self, measured: float) -> bool:
        """True if this median keeps the bound."""
        return measured >= self.bound if self.at_least else measured <= self.bound

    @property
    def bound_text(self) -> str:
        """The bound as it is shown, such as `<= 1.5 s`."""
        return f"{'>=' if self.at_least else '<='} {self.bound:g}{' ' if self.unit else ''}{self.unit}"


FIGURES = tuple(
    Figure(**row) for row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["figures"]
)
