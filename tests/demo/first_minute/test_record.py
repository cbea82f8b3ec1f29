"""What clients measured, stretch by stretch."""

import pytest
from tests.demo.first_minute.plays import END, LIMIT, NOISE, played

from sluicegate.demo.first_minute.record import Latency, Record, percentile


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([], 99, 0.0), ([7.0], 50, 7.0), ([1.0, 2.0], 50, 1.0), ([float(n) for n in range(1, 101)], 99, 99.0)],
)
def test_a_percentile_is_a_measured_value(values: list[float], percent: int, expected: float) -> None:
    assert percentile(values, percent) == expected


def test_latencies_are_ranked() -> None:
    assert Latency.of([3.0, 1.0, 2.0]) == Latency(3, 2.0, 3.0)
    assert Latency.of([]) == Latency(0, 0.0, 0.0)


def test_points_have_the_latency_and_both_rates_of_each_second() -> None:
    points = played().points(END)
    assert len(points) == END
    assert points[0].latency.p99 == 0.005
    assert points[int(NOISE)].latency.p50 == 1.0
    assert (points[int(NOISE)].acknowledged, points[int(NOISE)].refused) == (20.0, 0.0)
    assert (points[-1].acknowledged, points[-1].refused) == (4.0, 16.0)


def test_a_stretch_without_an_answer_keeps_the_latency_before() -> None:
    record = Record(0.0)
    record.take_neighbour([(0.5, 0.1), (2.5, 3.0)], [])
    assert [point.latency.p99 for point in record.points(3.9)] == [0.1, 0.1, 3.0]
    assert [point.at for point in record.points(3.9, 2.0)] == [2.0]


def test_the_last_error_of_the_noisy_producer_is_kept_with_its_client() -> None:
    record = played()
    record.take_noisy([], [], "", "noisy-1")
    assert (record.refusal, record.refused_client) == ("[Error 44]", "noisy-1")
    assert min(record.refused) >= LIMIT
