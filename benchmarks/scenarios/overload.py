"""Producers that want four times their limit for a long time: rate and memory stay constant."""

import itertools
import time
from contextlib import ExitStack

from benchmarks.harness.arms import Bench
from benchmarks.harness.clients import create_topic
from benchmarks.harness.gateway import Gateway
from benchmarks.harness.names import SLUICEGATE
from benchmarks.harness.numbered import NumberedProducer, account, sending, stored
from benchmarks.harness.scenario import Scenario

_LIMIT = 500
"""Messages a second, for all producers together; each of them wants as many."""
_PRODUCERS = 4
_RECORD_BYTES = 200
_POLICIES = {"broker": {"max_publish_rate": _LIMIT}}
_rounds = itertools.count(1)


def _overload(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    topic = f"overload-{next(_rounds)}"
    minutes, minute_s = (3, 5.0) if quick else (10, 60.0)
    source = bench.broker.bootstrap
    create_topic(source, topic)
    resident: list[int] = []
    ends: list[float] = []
    with ExitStack() as stack:
        gateway = Gateway(stack, bench.directory / topic, source, _POLICIES)
        with sending(
            gateway.address,
            topic,
            producers=_PRODUCERS,
            record_bytes=_RECORD_BYTES,
            pause_s=1 / _LIMIT,
        ) as senders:
            for _ in range(minutes + 1):  # the first has the burst and the warming up in it
                time.sleep(minute_s)
                ends.append(time.monotonic())
                resident.append(gateway.resident_bytes())
        values = account(senders, stored(source, topic))
    rates = [_rate(senders, since, until) / _LIMIT for since, until in itertools.pairwise(ends)]
    return values | {
        "lowest_minute_of_limit": min(rates),
        "highest_minute_of_limit": max(rates),
        "resident_mib": resident[0] / 2**20,
        "grown_mib": (resident[-1] - resident[0]) / 2**20,
        "grown_at_most_mib": (max(resident) - resident[0]) / 2**20,
    }


def _rate(senders: list[NumberedProducer], since: float, until: float) -> float:
    """Acknowledgements a second between two times."""
    answered = sum(since <= at < until for each in senders for at in each.acked.values())
    return answered / (until - since)


SCENARIOS = (
    Scenario(
        "overload",
        "four producers that want 4 x the limit for 10 minutes: rate of each minute, memory",
        (SLUICEGATE,),
        _overload,
        rounds=1,
        cold_round=False,
    ),
)
