"""What the clients of one play measured, second by second."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil


@dataclass(frozen=True, slots=True)
class Latency:
    """The latencies of some messages, in seconds."""

    count: int
    p50: float
    p99: float

    @classmethod
    def of(cls, latencies: Iterable[float]) -> "Latency":
        """Take the percentiles by the nearest rank; both are 0 of nothing."""
        ranked = sorted(latencies)
        return cls(len(ranked), percentile(ranked, 50), percentile(ranked, 99))


def percentile(ranked: Sequence[float], percent: int) -> float:
    """The value that so many percent do not exceed, 0 of nothing.

    :param ranked: the values in ascending order.
    """
    if not ranked:
        return 0.0
    return ranked[max(0, ceil(len(ranked) * percent / 100) - 1)]


@dataclass(frozen=True, slots=True)
class Point:
    """A stretch of time."""

    at: float
    """Its end, in seconds since the start."""
    latency: Latency
    """The neighbour's; that of the stretch before if nothing was acknowledged within it."""
    acknowledged: float
    """Messages per second of the noisy producer."""
    refused: float
    """Its refused messages per second."""


@dataclass(slots=True)
class Record:
    """One play.

    :param began: its start, by the monotonic clock, which all processes of a machine share.
    """

    began: float
    neighbour: list[tuple[float, float]] = field(default_factory=list)
    """When each message of the neighbour was acknowledged, and its latency, in seconds."""
    acknowledged: list[float] = field(default_factory=list)
    """When each message of the noisy producer was acknowledged."""
    refused: list[float] = field(default_factory=list)
    """When each of its messages was refused."""
    errors: list[str] = field(default_factory=list)
    """What the neighbour's client library raised."""
    refusal: str = ""
    """What the noisy producer's client library raised last."""
    refused_client: str = ""
    """The name of the producer that it told."""
    calm_at: float = 0.0
    """From when on the neighbour's figures without the noise count, in seconds since the start."""
    noisy_at: float | None = None
    """When the noise began."""
    limited_at: float | None = None
    """When the command that set the limit had ended."""
    settled_at: float | None = None
    """From when on its figures behind the limit count; what waited had been written by then."""
    ended_at: float = 0.0

    def take_neighbour(self, acknowledged: Iterable[Sequence[float]], errors: Iterable[str]) -> None:
        """Add what the neighbour's process reports, in monotonic time."""
        self.neighbour += [(at - self.began, latency) for at, latency in acknowledged]
        self.errors += errors

    def take_noisy(
        self, acknowledged: Iterable[float], refused: Iterable[float], message: str, by: str
    ) -> None:
        """Add what the noisy producer's process reports, in monotonic time."""
        self.acknowledged += [at - self.began for at in acknowledged]
        self.refused += [at - self.began for at in refused]
        if message:
            self.refusal, self.refused_client = message, by

    def latency(self, begin: float, end: float) -> Latency:
        """Of the neighbour's messages that were acknowledged between two moments."""
        return Latency.of(latency for at, latency in self.neighbour if begin <= at < end)

    def points(self, until: float, step: float = 1.0) -> list[Point]:
        """The whole stretches of a play so far.

        :param until: seconds since the start.
        :param step: length of a stretch, in seconds.
        """
        points: list[Point] = []
        for number in range(int(until / step)):
            begin, end = number * step, (number + 1) * step
            latency = self.latency(begin, end)
            if not latency.count and points:
                latency = points[-1].latency
            points.append(
                Point(
                    end,
                    latency,
                    count(self.acknowledged, begin, end) / step,
                    count(self.refused, begin, end) / step,
                )
            )
        return points


def count(times: Iterable[float], begin: float, end: float) -> int:
    """How many moments lie between two others."""
    return sum(begin <= at < end for at in times)
