"""Example results of a comparison: every kind of chart, every verdict, and every kind of gap."""

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sluicegate_reports.model.results import (
    Arm,
    Cell,
    Chart,
    Cost,
    Kind,
    Phase,
    Point,
    Results,
    RunFacts,
    Section,
    Series,
    Skew,
    Table,
    Threshold,
)
from sluicegate_reports.model.verdict import Verdict, worst
from sluicegate_reports.registry.arms import REFERENCE_LABEL

_BEGAN = datetime(2026, 11, 21, 10, 40, 22, tzinfo=UTC)
ARMS = (
    Arm("kafka", "proxy"),
    Arm("kafka", "native", "nearest"),
    Arm("pulsar", "proxy"),
    Arm("pulsar", "native"),
    Arm("danube", "interceptor", REFERENCE_LABEL),
    Arm(
        "danube",
        "proxy",
        REFERENCE_LABEL,
        missing="danube-client is not installed: pip install sluicegate[danube]",
    ),
)
_RAN = ARMS[:-1]

SCENARIO = """\
name: Mixed: counts, a burst, delays and a noisy neighbour
duration: 60s
topics:
  - {name: orders, partitions: 1}
producers:
  - {topic: orders, rate: 1500/s, size: 1KiB, clients: 3}
"""
POLICIES = """\
policies:
  topics:
    - topic: orders
      max_producers_per_topic: 3
      max_publish_rate: 1000/s
      fixed_delivery_delay: 2s
"""


def _over_arms(make: Callable[[int], tuple[Point, ...]]) -> tuple[Series, ...]:
    return tuple(Series(arm.system, arm.door, make(index)) for index, arm in enumerate(_RAN))


def _rate(index: int) -> tuple[Point, ...]:
    level, wave = (1000, 1240, 1002, 1150, 985)[index], (6, 60, 9, 40, 4)[index]
    start = (1990, 1420, 1980, 1300, 1970)[index]
    values = [start, *(level + wave * math.sin(second * (1.1 + index / 5)) for second in range(1, 60))]
    gap = range(30, 34) if index == 2 else range(0)
    return tuple(Point(second, None if second in gap else value) for second, value in enumerate(values))


def _fill(index: int) -> tuple[Point, ...]:
    return tuple(Point(step / 2, max(0.0, 1000 - step * (140 + 30 * index)) + step % 3) for step in range(41))


def _quantiles(index: int) -> tuple[Point, ...]:
    shares = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0)
    scale_ns = (1.0e6, 40.0e6, 1.3e6, 9.0e6, 2.2e6)[index]
    nines = [-math.log10(1 - min(share, 0.99999)) for share in shares]
    return tuple(
        Point(share, scale_ns * (0.2 + nine**1.5)) for share, nine in zip(shares, nines, strict=True)
    )


def _rate_errors(index: int) -> tuple[Point, ...]:
    middle = (0.4, 24.0, 0.6, 15.1, 1.1)[index]
    return (Point(0, middle, middle * 0.8, middle * 1.25),)


_CHARTS = (
    Chart(
        "Messages admitted in each second",
        "messages/s",
        "seconds since the phase began",
        _over_arms(_rate),
        limit=1000,
        rows="rate seconds",
        text="The first second may hold the burst on top; from then on a line should lie on the limit.",
    ),
    Chart(
        "Fill of an ideal bucket",
        "messages",
        "seconds since the phase began",
        _over_arms(_fill),
    ),
)


def _seconds() -> Table:
    rows = tuple(
        (arm.system, arm.door, second, point.y, 1000)
        for index, arm in enumerate(_RAN)
        for second, point in enumerate(_rate(index))
    )
    columns = ("system", "door", "second", "admitted (messages/s)", "limit (messages/s)")
    return Table(columns, rows, "rate seconds", "Messages admitted, by second")


_UNITS = {
    "max_producers_per_topic": ("admitted", 3.0, "counts"),
    "max_publish_rate": ("%", 5.0, "rate error"),
    "fixed_delivery_delay": ("ns", 50e6, ""),
}
_VERDICTS: dict[str, list[tuple[Verdict, float | None]]] = {
    "max_producers_per_topic": [(Verdict.EXACT, 3.0)] * 5,
    "max_publish_rate": [
        (Verdict.WITHIN, 0.4),
        (Verdict.OFF, 24.0),
        (Verdict.WITHIN, 0.6),
        (Verdict.OFF, 15.1),
        (Verdict.WITHIN, 1.1),
    ],
    "fixed_delivery_delay": [
        (Verdict.WITHIN, 1.8e6),
        (Verdict.NOT_APPLICABLE, None),
        (Verdict.WITHIN, 2.3e6),
        (Verdict.MISSING, None),
        (Verdict.EXACT, 0.0),
    ],
}
_COSTS = {
    ("kafka", "proxy"): Cost(2.9, 7.4, 910.0),
    ("kafka", "native"): Cost(2.2, 6.1, 918.5),
    ("pulsar", "proxy"): Cost(4.8, 14.0, 905.0),
}
_WORDS = {
    Verdict.NOT_APPLICABLE: "Kafka delivers nothing late",
    Verdict.MISSING: "the observations of this arm end before the first delivery",
}


def _matrix() -> tuple[Cell, ...]:
    cells = []
    for policy, verdicts in _VERDICTS.items():
        unit, bound, rows = _UNITS[policy]
        for arm, (verdict, figure) in zip(_RAN, verdicts, strict=True):
            most = bound if figure is not None else None
            text = _WORDS.get(verdict, "")
            cell = Cell(policy, arm.system, arm.door, verdict, figure, most, text, rows, unit)
            cells.append(replace(cell, cost=_COSTS.get((arm.system, arm.door))))
    return tuple(cells)


def example() -> Results:
    """One comparison, whole but for what it says is missing."""
    counts = tuple((arm.system, arm.door, 4, 3, 1, True) for arm in _RAN)
    errors = tuple(
        (arm.system, arm.door, point.low, point.y, point.high)
        for index, arm in enumerate(_RAN)
        for point in _rate_errors(index)
    )
    matrix = _matrix()
    return Results(
        run=RunFacts(
            run="20261121T104022Z-mixed",
            scenario=SCENARIO,
            policies=POLICIES,
            title="Mixed: counts, a burst, delays",
            started=_BEGAN,
            ended=_BEGAN + timedelta(minutes=2, seconds=41),
            versions={
                "sluicegate": "0.1.0",
                "Kafka": "4.3.0",
                "Pulsar": "4.2.1",
                "pyspark": "4.3.0",
                "Java": "17.0.12",
            },
            machine={"processor": "2 cores", "memory": "23 GiB", "system": "Debian 12, Linux 6.1"},
            commands=(
                "sluicegate compare run mixed.yaml --out runs/mixed",
                "sluicegate report compare runs/mixed",
            ),
            phases=(
                Phase("counts", _BEGAN, _BEGAN + timedelta(seconds=12)),
                Phase("burst", _BEGAN + timedelta(seconds=12), _BEGAN + timedelta(seconds=72)),
            ),
            arms=ARMS,
            skews=(
                Skew("producer-1", "kafka", "proxy", -420.0, 180.0),
                Skew("producer-1", "danube", "interceptor", 12.0, 90.0),
            ),
        ),
        verdict=worst(cell.verdict for cell in matrix),
        summary="Through the gate all three systems keep every policy within its bound. Natively, Kafka's "
        "quota and Pulsar's publish rate let more through than the policy says.",
        matrix=matrix,
        sections=(
            Section(
                "max_publish_rate",
                "At most 1,000 messages a second, with a burst of 1,000. Three clients offer 1,500.",
                _CHARTS,
                (
                    _seconds(),
                    Table(
                        ("system", "door", "5th percent (%)", "median (%)", "95th percent (%)"),
                        errors,
                        "rate error",
                        "Rate error over windows of 10 s",
                    ),
                ),
            ),
            Section(
                "fixed_delivery_delay",
                "Every message is delivered two seconds after it was published, and never earlier.",
                (
                    Chart(
                        "Lateness against the delay",
                        "ns",
                        "",
                        _over_arms(_quantiles),
                        log=True,
                        kind=Kind.QUANTILES,
                        limit=50e6,
                        limit_text="bound",
                        text="How much later than two seconds messages came.",
                    ),
                ),
            ),
            Section(
                "max_producers_per_topic",
                "Three producers may attach to a topic. A fourth asks.",
                (),
                (
                    Table(
                        ("system", "door", "asked", "admitted", "refused", "retry admitted"),
                        counts,
                        "counts",
                        "Attachments",
                        total=40,
                    ),
                ),
            ),
        ),
        thresholds=(
            Threshold("off_cells", 0, 2, False, text="cells of the matrix that are off"),
            Threshold("rate_error_percent", 5, 1.1, True, "%", "worst rate error through a gate"),
            Threshold("early_messages", 0, 0, True, "messages", "delivered before their time"),
            Threshold("lost_messages", 0, None, False, "messages", "acknowledged, never received"),
        ),
        notes=("run=1/system=pulsar/part-main-00002.parquet is cut short: 1 of 31 files was left out",),
    )
