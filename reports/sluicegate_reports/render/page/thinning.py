"""Thins out points without a visible change: each interval keeps its first, lowest, highest and last one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sluicegate_reports.model.results import Chart, Point

_KEPT = 4
"""Most points that stay of one interval, besides gaps."""
_KEPT_OF_SPREAD = 6
"""The same for points with a spread, whose lowest and highest ends stay too."""


def thinned_chart(chart: Chart, most: int) -> Chart:
    """A chart each of whose series has about `most` points."""
    series = (replace(each, points=thinned(each.points, most)) for each in chart.series)
    return replace(chart, series=tuple(series))


def thinned(points: Sequence[Point], most: int) -> tuple[Point, ...]:
    """About `most` of the points, in order; peaks and gaps are never lost.

    :param points: in the order of x.
    :param most: wanted points, besides gaps, of which one stays between two points.
    """
    if len(points) <= most:
        return tuple(points)
    spread = any(point.high is not None for point in points)
    stretches = max(1, most // (_KEPT_OF_SPREAD if spread else _KEPT))
    size = len(points) / stretches
    kept: list[Point] = []
    for index in range(stretches):
        kept.extend(_some(points[round(index * size) : round((index + 1) * size)]))
    return tuple(kept)


def _some(stretch: Sequence[Point]) -> Iterator[Point]:
    wanted: set[int] = set()
    measured = [index for index, point in enumerate(stretch) if point.y is not None]
    if measured:
        wanted = {measured[0], measured[-1]}
    for choose, values in (
        (min, [point.y for point in stretch]),
        (max, [point.y for point in stretch]),
        (min, [point.low for point in stretch]),
        (max, [point.high for point in stretch]),
    ):
        known = [(value, -index) for index, value in enumerate(values) if value is not None]
        if known:
            wanted.add(-choose(known)[1])
    before = -1
    for index in [*sorted(wanted), len(stretch)]:
        gap = next((n for n in range(before + 1, index) if stretch[n].y is None), None)
        if gap is not None:
            yield stretch[gap]
        if index < len(stretch):
            yield stretch[index]
        before = index
