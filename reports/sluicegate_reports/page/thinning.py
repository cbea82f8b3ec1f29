"""Fewer points that look the same: of each stretch the first, the lowest, the highest and the last stay."""

from collections.abc import Iterator, Sequence

from sluicegate_reports.results import Point

_KEPT = 4
"""Points that stay of a stretch, at most; a gap in it is a fifth."""


def thinned(points: Sequence[Point], most: int) -> tuple[Point, ...]:
    """At most about `most` of the points, in order: peaks and gaps are never lost.

    :param points: in the order of x.
    :param most: points that are wanted; gaps come on top, one for each stretch.
    """
    if len(points) <= most:
        return tuple(points)
    stretches = max(1, most // _KEPT)
    size = len(points) / stretches
    kept: list[Point] = []
    for index in range(stretches):
        kept.extend(_some(points[round(index * size) : round((index + 1) * size)]))
    return tuple(kept)


def _some(stretch: Sequence[Point]) -> Iterator[Point]:
    measured = [(index, point.y) for index, point in enumerate(stretch) if point.y is not None]
    wanted = {next((index for index, point in enumerate(stretch) if point.y is None), None)}
    if measured:
        wanted |= {measured[0][0], measured[-1][0]}
        wanted |= {choose(measured, key=lambda pair: pair[1])[0] for choose in (min, max)}
    for index in sorted(index for index in wanted if index is not None):
        yield stretch[index]
