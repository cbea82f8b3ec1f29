"""Publish rates on Pulsar under saturation: their accuracy, and their effect on other producers."""

import threading
import time
from bisect import bisect_left

from benchmarks.harness.arms import Bench
from benchmarks.harness.names import DIRECT, SLUICEGATE
from benchmarks.harness.pulsar_arms import FREE, LIMITED, LIMITED_PER_S, NATIVE_LIMITED, NATIVE_SLOW, SLOW
from benchmarks.harness.pulsar_clients import connected
from benchmarks.harness.pulsar_producers import Saturating, saturate, saturating_producer, sending
from benchmarks.harness.samples import mid
from benchmarks.harness.scenario import Scenario

_PRODUCERS = 4
_PENDING = 500
_SLOW_PENDING = 50
STRETCH_S = 1.0
_SETTLE_S = 0.7
_TURN = (True, False, False, True)
"""With and without the limited one, so that what changes steadily favours neither."""


def _rate(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    arm = bench.pulsar.arm(name)
    seconds, window_s = (10.0, 5.0) if quick else (25.0, 20.0)
    with bench.pulsar.fresh_topic(NATIVE_LIMITED if name == DIRECT else LIMITED) as topic:
        seen = saturate(arm.route, topic, producers=_PRODUCERS, pending=_PENDING, seconds=seconds)
    return seen.figures(1, LIMITED_PER_S, seconds=seconds, window_s=window_s)


def _neighbour(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    """Turn a limited producer on and off beside one that sends all the time, on the same connection."""
    arm, turns = bench.pulsar.arm(name), 1 if quick else 2
    stop, always, sometimes = threading.Event(), threading.Event(), threading.Event()
    always.set()
    stretches: list[tuple[float, bool]] = []
    with (
        bench.pulsar.fresh_topic(FREE) as free,
        bench.pulsar.fresh_topic(NATIVE_SLOW if name == DIRECT else SLOW) as slow,
        connected(arm.route) as client,
    ):
        other = Saturating(saturating_producer(client, free, _PENDING), stop, always)
        limited = Saturating(saturating_producer(client, slow, _SLOW_PENDING), stop, sometimes)
        with sending(other, limited):
            sometimes.set()
            time.sleep(2 * _SETTLE_S)  # its initial burst is spent by the end of this and the next
            for beside in _TURN * turns:
                (sometimes.set if beside else sometimes.clear)()
                time.sleep(_SETTLE_S)  # what waits of it is gone by then
                stretches.append((time.monotonic(), beside))
                time.sleep(STRETCH_S)
    return compare(other, limited, stretches)


def compare(other: Saturating, limited: Saturating, stretches: list[tuple[float, bool]]) -> dict[str, float]:
    """Receipts of the other in the stretches with and without the limited one.

    :param stretches: start of each, and whether the limited producer was sending.
    """

    def per_s(sender: Saturating, beside: bool) -> float:
        return mid(
            (bisect_left(sender.times, start + STRETCH_S) - bisect_left(sender.times, start)) / STRETCH_S
            for start, was_beside in stretches
            if was_beside is beside
        )

    alone = per_s(other, False)
    if other.failed or limited.failed or not alone:
        raise RuntimeError(f"{other.failed} and {limited.failed} messages failed; {alone:.0f}/s alone")
    return {
        "alone_per_s": alone,
        "of_alone": per_s(other, True) / alone,
        "limited_per_s": per_s(limited, True),
    }


SCENARIOS = (
    Scenario(
        "pulsar-rate",
        "4 saturating producers against 2,000 messages/s: error, first second, gaps, fairness",
        (DIRECT, SLUICEGATE),
        _rate,
        rounds=3,
        cold_round=False,
    ),
    Scenario(
        "pulsar-neighbour",
        "one producer beside another on its connection that is held to 100 messages/s",
        (DIRECT, SLUICEGATE),
        _neighbour,
        rounds=3,
        cold_round=False,
    ),
)
