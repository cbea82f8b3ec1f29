"""Reading what Kafka's performance tools print."""

import pytest
from benchmarks.harness.clients import parse_consumed, parse_produced

_PRODUCED = (
    "2000 records sent, 400.000000 records/sec (0.39 MB/sec), 9.00 ms avg latency, 90.00 ms max latency, "
    "7 ms 50th, 30 ms 95th, 80 ms 99th, 90 ms 99.9th.\n"
    "5000 records sent, 999.200639 records/sec (0.98 MB/sec), 0.75 ms avg latency, 301.00 ms max latency, "
    "1 ms 50th, 2 ms 95th, 17 ms 99th, 60 ms 99.9th.\n"
)
_CONSUMED = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n"
    "2026-11-21 10:43:01:100, 2026-11-21 10:43:02:100, 97.6563, 97.6, 100000, 100000.0, 400, 600, "
    "162.7604, 166666.6\n"
)


def test_the_last_summary_counts() -> None:
    produced = parse_produced(_PRODUCED, 5000)
    assert (produced.records_per_s, produced.mib_per_s) == (999.200639, 0.98)
    assert (produced.p50_ms, produced.p99_ms) == (1, 17)


@pytest.mark.parametrize(
    "output",
    ["", _PRODUCED.replace("5000", "4999"), "org.apache.kafka.common.errors.TimeoutException\n" + _PRODUCED],
)
def test_a_run_that_lost_records_is_an_error(output: str) -> None:
    with pytest.raises(RuntimeError, match="did not send all 5000 records"):
        parse_produced(output, 5000)


def test_the_speed_while_fetching_counts() -> None:
    assert parse_consumed(_CONSUMED, 100_000) == 162.7604


def test_a_consumer_that_received_too_little_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="got 100000 of 100001 records"):
        parse_consumed(_CONSUMED, 100_001)
    with pytest.raises(RuntimeError, match="printed no table"):
        parse_consumed("", 1)
