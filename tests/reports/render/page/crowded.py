"""Results that fill a page: many arms, long names, wide ranges, gaps of each kind."""

import math
from collections.abc import Callable
from dataclasses import replace

from tests.reports.model.example import example

from sluicegate_reports.model.results import Arm, Cell, Chart, Kind, Point, Results, Section, Series
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.registry.arms import REFERENCE_LABEL

_LABELS = {("kafka", "native"): "nearest"}
ARMS = tuple(
    Arm(system, door, REFERENCE_LABEL if system == "danube" else _LABELS.get((system, door), ""))
    for system in ("kafka", "pulsar", "danube")
    for door in ("proxy", "interceptor", "native")
)
_POLICIES = (
    "max_subscription_dispatch_rate_bytes",
    "max_unacked_messages_per_consumer",
    "connection_rate_limit",
)
_LONG = "refused 1,003 of 1,500 where the ideal bucket refuses 1,000, all in the first second"
_TIME = "seconds since the phase began"


def _all(make: Callable[[int], tuple[Point, ...]]) -> tuple[Series, ...]:
    return tuple(Series(arm.system, arm.door, make(index)) for index, arm in enumerate(ARMS))


def _wave(index: int) -> tuple[Point, ...]:
    level = 1e6 * (1 + index / 10)
    return tuple(
        Point(x, level + 3e4 * math.sin(x * (index + 1) / 7), level - 5e4, level + 5e4) for x in range(120)
    )


def _clients() -> tuple[Series, ...]:
    return tuple(
        Series(
            arm.system,
            arm.door,
            tuple(Point(x, 100 + 20 * n + 9 * math.sin(x)) for x in range(9)),
            f"client {n}",
        )
        for arm in ARMS[:2]
        for n in range(4)
    )


_CHARTS = (
    Chart("Bytes admitted in each second", "bytes/s", _TIME, _all(_wave), 2**20),
    Chart("By client: messages in each second", "messages/s", _TIME, _clients(), 1e6),
    Chart(
        "Decision cost",
        "ns",
        "",
        _all(lambda n: tuple(Point(q, 200 * (n + 1) * (1 + 8 * q**20)) for q in (0, 0.5, 0.9, 0.99, 0.999))),
        kind=Kind.QUANTILES,
    ),
)


def crowded() -> Results:
    """One comparison with nine arms."""
    verdicts = list(Verdict)
    matrix = tuple(
        Cell(policy, arm.system, arm.door, verdicts[(row + column) % 5], 12_345.6, 1e5, _LONG, unit="bytes/s")
        for row, policy in enumerate(_POLICIES)
        for column, arm in enumerate(ARMS)
    )
    some = example()
    return replace(
        some,
        run=replace(some.run, arms=ARMS, title="A noisy neighbour at three times its share"),
        matrix=matrix,
        sections=(Section(_POLICIES[0], "", _CHARTS), *some.sections),
    )
