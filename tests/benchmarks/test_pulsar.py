"""What the Pulsar scenarios make of what their clients saw."""

import threading
from unittest.mock import Mock

import pulsar
import pytest
from benchmarks.harness.pulsar_arms import LATE_MS
from benchmarks.harness.pulsar_clients import Receipts
from benchmarks.harness.pulsar_producers import Saturating
from benchmarks.scenarios import pulsar_beside, pulsar_delay
from benchmarks.scenarios.pulsar_delay import Arrivals
from benchmarks.scenarios.pulsar_rate import STRETCH_S, compare

_NOW_MS = 1_700_000_000_000


def test_all_receipts_came() -> None:
    receipts = Receipts(2)
    receipts(pulsar.Result.Ok, None)
    with pytest.raises(RuntimeError, match="1 of 2 answers"):
        receipts.wait(0)
    receipts(pulsar.Result.Ok, None)
    receipts.wait(0)


def test_a_message_that_failed_is_an_error() -> None:
    receipts = Receipts(1)
    receipts(pulsar.Result.Timeout, None)
    with pytest.raises(RuntimeError, match=r"1 of 1 answers: \['.*Timeout"):
        receipts.wait(0)


def test_a_message_is_late_from_its_publish_time_and_the_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulsar_delay, "time_ns", lambda: _NOW_MS * 1_000_000)
    arrived, consumer = Arrivals(3, asked=False), Mock()
    for late_ms in (-1, 40, 10):
        arrived(consumer, Mock(publish_timestamp=lambda at=_NOW_MS - LATE_MS - late_ms: at))
    assert arrived.values("shared") == {
        "shared_early": 1,
        "shared_p50_late_ms": 10,
        "shared_p99_late_ms": 40,
        "shared_max_late_ms": 40,
    }
    assert consumer.acknowledge.call_count == 3


def test_a_due_time_that_the_producer_requests_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulsar_delay, "time_ns", lambda: _NOW_MS * 1_000_000)
    arrived = Arrivals(1, asked=True)
    arrived(Mock(), Mock(data=lambda: (_NOW_MS - 25).to_bytes(8, "big")))
    assert arrived.values("shared")["shared_max_late_ms"] == 25


def test_a_producer_is_compared_with_itself_alone() -> None:
    other, limited = (Saturating(None, threading.Event(), threading.Event()) for _ in range(2))
    # 80 beside the limited one, 100 in each stretch without it.
    other.times = [number / 80 for number in range(80)] + [10 + number / 100 for number in range(100)]
    limited.times = [0.1, 0.2]
    figures = compare(other, limited, [(0.0, True), (10.0, False)])
    assert figures == {
        "alone_per_s": 100 / STRETCH_S,
        "of_alone": pytest.approx(0.8),
        "limited_per_s": 2 / STRETCH_S,
    }
    limited.failed = 1
    with pytest.raises(RuntimeError, match="0 and 1 messages failed"):
        compare(other, limited, [(0.0, True), (10.0, False)])


def test_latencies_beside_a_throttled_one_are_a_multiple_of_those_alone() -> None:
    alone, beside = [number / 1_000 for number in range(1, 101)], [number / 500 for number in range(1, 101)]
    figures = pulsar_beside.compare({"alone": alone, "beside": beside})
    assert figures == {
        "alone_p50_ms": pytest.approx(50),
        "alone_p99_ms": pytest.approx(99),
        "beside_p50_ms": pytest.approx(100),
        "beside_p99_ms": pytest.approx(198),
        "beside_max_ms": pytest.approx(200),
        "p99_of_alone": pytest.approx(2),
    }
    with pytest.raises(RuntimeError, match=r"messages of \['alone'\] only"):
        pulsar_beside.compare({"alone": alone})
