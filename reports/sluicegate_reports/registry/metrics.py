"""The metrics of trials: one row each, which tables, thresholds and verdicts read.

A new one needs a transform that measures it, a rule if verdicts depend on it, and its row here or in an
`Extension`, and nothing else. Less is better in all thresholds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from sluicegate_reports.registry.measured import Family

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sluicegate_reports.model.finding import Figures, Finding
    from sluicegate_reports.model.trial import Trial

Transform: TypeAlias = "Callable[[DataFrame, DataFrame], DataFrame]"
"""Makes rows with `trial` and the metric's name, of observations and of the trials, see `lanes.Try`."""
Rule: TypeAlias = "Callable[[Trial, Figures], Finding | None]"
"""A trial's finding by its figures; None if they do not affect its verdict."""

AMOUNT = "amount"
"""Unit of a metric that has its limit's unit without the second."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A metric's threshold: its figures over the whole run against a bound."""

    name: str
    """As --fail-on takes it."""
    most: float
    text: str
    """What is measured, in words."""
    total: bool = True
    """Whether figures of all trials are summed; otherwise the largest counts."""
    unit: str = "messages"
    rows: str = ""
    """Name of the table that it comes from."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure."""

    name: str
    """Its name in verdicts, and the column of its transform."""
    title: str = ""
    """Heading of its column; a metric without one is in no policy's table."""
    families: tuple[Family, ...] = ()
    """The policies that it measures; empty if it measures messages independently of policies."""
    unit: str = ""
    """`ms`, `s`, `share`, AMOUNT, or nothing for a number."""
    compared: bool = False
    """Whether it is comparable between a gate and a system, as clients see both."""
    bound: Bound | None = None
    """Its threshold."""
    transform: "Transform | None" = None
    """Measures it, if none of our own queries does."""
    rule: "Rule | None" = None
    """Contributes to the verdict on each trial of `families`, beside the family's own rule."""

    def heading(self, limit_unit: str) -> str:
        """Its column's name, with the unit in brackets; of amounts only bytes are named."""
        return _with(self.title, self._unit_beside(limit_unit))

    def words(self, limit_unit: str) -> str:
        """Its name in words, with the unit in brackets."""
        return _with(self.name.removesuffix("_ms").replace("_", " "), self._unit_beside(limit_unit))

    def _unit_beside(self, limit_unit: str) -> str:
        if self.unit != AMOUNT:
            return self.unit
        counted = limit_unit.partition("/")[0]
        return counted if counted == "bytes" else ""


def _with(text: str, unit: str) -> str:
    return f"{text} ({unit})" if unit else text


_RATE = (Family.RATE,)
_COUNT = (Family.COUNT,)
_SIZES = (Family.SIZE, Family.ASKED_DELAY)
_ANSWERS = (Family.COUNT, *_SIZES)
_DELAY = (Family.DELAY,)
_UNACKED = (Family.UNACKED,)
_EARLY = Bound(
    "early_messages", 0, "messages delivered before their delay", rows="fixed_delivery_delay figures"
)


def _delivered(name: str, threshold: str, text: str) -> Metric:
    return Metric(name, bound=Bound(threshold, 0, text, rows="delivery"))


METRICS = (
    Metric("excess", "largest excess", _RATE, AMOUNT, compared=True),
    Metric("excess_at_s", "from", _RATE, "s"),
    Metric("excess_window_s", "within", _RATE, "s"),
    Metric("used", "used of what was owed", _RATE, "share", compared=True),
    Metric("waited_s", "somebody waited", _RATE, "s"),
    Metric("admitted", "admitted", _RATE, AMOUNT),
    Metric("refused", "refused at first", _RATE),
    Metric("ideal_refused", "ideal refused", _RATE),
    Metric("attempts", "answers", _ANSWERS),
    Metric("attached", "let in", _COUNT),
    Metric("refused", "refused", _SIZES),
    Metric("refused", "refused by it", _COUNT),
    Metric("largest_admitted", "largest let in", _SIZES, AMOUNT),
    Metric("otherwise", "refused otherwise", _ANSWERS),
    Metric("unclear", "refused, unclear by whom", _COUNT),
    Metric("served", "refused, yet served", _COUNT),
    Metric("most", "most at once", _COUNT, compared=True),
    Metric("wrongly_admitted", "wrongly admitted", (*_RATE, *_ANSWERS), compared=True),
    Metric("wrongly_refused", "wrongly refused", (*_RATE, *_ANSWERS), compared=True),
    Metric("clients", "clients", _RATE),
    Metric("jain", "Jain", _RATE, compared=True),
    Metric("engage_ms", "engage", _RATE, "ms", compared=True),
    Metric("release_ms", "release", _RATE, "ms", compared=True),
    Metric("messages", "messages", _DELAY),
    Metric("early", "early", _DELAY, compared=True, bound=_EARLY),
    Metric("least_ms", "earliest", _DELAY, "ms"),
    Metric("p50_ms", "p50", _DELAY, "ms", compared=True),
    Metric("p99_ms", "p99", _DELAY, "ms", compared=True),
    Metric("beyond_p99_ms", "p99 beyond others", _DELAY, "ms"),
    Metric("most_ms", "latest", _DELAY, "ms"),
    Metric("consumers", "consumers", _UNACKED),
    Metric("received", "received", _UNACKED),
    Metric("acknowledged", "acknowledged", _UNACKED),
    Metric("most", "most unacknowledged", _UNACKED, compared=True),
    _delivered("lost", "lost_messages", "acknowledged to producers and never received"),
    _delivered("duplicates", "duplicated_messages", "deliveries too many"),
    _delivered("reordered", "reordered_messages", "received after a later message of the same producer"),
    _delivered("altered", "altered_messages", "received with another size than they were sent with"),
    _delivered("told_refused", "told_refused_messages", "refused to producers and received"),
)
"""The metrics that come with the product, in the order of their columns."""
