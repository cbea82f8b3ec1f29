"""A volume that fills in steps: the rate along the ramp, the pause at the hard limit, the release."""

import itertools
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.harness.arms import Bench
from benchmarks.harness.clients import create_topic
from benchmarks.harness.names import SLUICEGATE, STRIMZI
from benchmarks.harness.numbered import NumberedProducer, account, end_offset, sending, stored
from benchmarks.harness.processes import Child
from benchmarks.harness.samples import longest_gap
from benchmarks.harness.scenario import Scenario
from benchmarks.harness.storage_arms import HARD, INTERVAL_S, QUOTA, SOFT, StorageArm, start_arm
from benchmarks.harness.volumes import Filler

_TOPIC = "filling"
_PRODUCERS = 8
_RECORD_BYTES = 10_000
_RAMP = (0.75, 0.5, 0.25)
"""Factors of the steps."""
_UNLIMITED_S = 2.5
"""Before the ramp: what the bucket held at first is spent."""
_SETTLE_S = INTERVAL_S + 0.5
_ALLOWED_S = INTERVAL_S + 1.0
"""From the breach to the pause."""
_UNDER_WAY_S = 0.1
"""The broker appends within this time what it received just before the pause."""
_PAUSE_S = 7.0
_RECOVER_S = 10.0
"""How long a release is waited for."""
_POLL_S = 0.02
_rounds = itertools.count(1)


@dataclass(frozen=True, slots=True)
class _Step:
    factor: float
    first: float
    last: float


@dataclass(frozen=True, slots=True)
class _Pause:
    """What a breach of the hard limit did; amounts are records."""

    after_s: float | None
    """From the breach until the gate said that it paused; None for the plug-in, which does not say."""
    after_pause: int | None
    late: int
    """Appended later than the allowed time after the breach."""


def _storage_quota(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    window_s = 1.0 if quick else 4.0
    with ExitStack() as stack:
        arm = start_arm(stack, bench.directory / f"storage-quota-{name}-{next(_rounds)}", name)
        create_topic(arm.broker.bootstrap, _TOPIC)
        filler = Filler(arm.volume)
        with sending(arm.bootstrap, _TOPIC, producers=_PRODUCERS, record_bytes=_RECORD_BYTES) as senders:
            time.sleep(_UNLIMITED_S)
            ramp = [_step(filler, factor, window_s) for factor in _RAMP]
            pause = _breach(arm, filler)
            recovery_s = _release(filler, senders)
        wire_bytes = arm.broker.bytes_per_record(_TOPIC)
        values = account(senders, stored(arm.broker.bootstrap, _TOPIC))
    times = [list(each.acked.values()) for each in senders]
    values |= _ramp_figures(ramp, times, wire_bytes)
    values |= {"late_bytes": pause.late * wire_bytes, "recovery_s": recovery_s}
    if pause.after_s is not None and pause.after_pause is not None:
        values |= {"pause_s": pause.after_s, "after_pause_bytes": pause.after_pause * wire_bytes}
    return values


def _step(filler: Filler, factor: float, window_s: float) -> _Step:
    free = round(HARD + factor * (SOFT - HARD))
    first = time.monotonic() + _SETTLE_S
    filler.keep(free, first + window_s)
    return _Step(factor, first, first + window_s)


def _breach(arm: StorageArm, filler: Filler) -> _Pause:
    source = arm.broker.bootstrap
    breached = time.monotonic()
    filler.leave(HARD // 2)
    after_s, at_pause = None, None
    if arm.gate is not None:
        after_s = _paused(arm.gate) - breached
        time.sleep(_UNDER_WAY_S)
        at_pause = end_offset(source, _TOPIC)
    _sleep_until(breached + _ALLOWED_S)
    allowed = end_offset(source, _TOPIC)
    _sleep_until(breached + _PAUSE_S)
    end = end_offset(source, _TOPIC)
    return _Pause(after_s, None if at_pause is None else end - at_pause, end - allowed)


def _paused(gate: Child) -> float:
    """When the gate said that it pauses."""
    deadline = time.monotonic() + _RECOVER_S
    while "-> PAUSE" not in gate.log.read_text(errors="replace"):
        if time.monotonic() > deadline:
            raise RuntimeError(f"the gate did not pause within {_RECOVER_S:g} s")
        time.sleep(_POLL_S)
    return time.monotonic()


def _release(filler: Filler, senders: Sequence[NumberedProducer]) -> float:
    """Seconds until every producer is let through again; as long as it was waited for if one is not."""
    before = [len(each.acked) for each in senders]
    released = time.monotonic()
    filler.remove()
    while time.monotonic() < released + _RECOVER_S:
        if all(len(each.acked) > had for each, had in zip(senders, before, strict=True)):
            break
        time.sleep(_POLL_S)
    return time.monotonic() - released


def _ramp_figures(
    ramp: Sequence[_Step], times: Sequence[Sequence[float]], wire_bytes: float
) -> dict[str, float]:
    """How the rate of each step kept to quota x factor, and the gaps between acknowledgements meanwhile.

    :param times: seconds (monotonic) of each acknowledgement, by producer.
    :param wire_bytes: of each record.
    """
    together = sorted(itertools.chain.from_iterable(times))
    errors = {}
    for step in ramp:
        admitted = wire_bytes * sum(1 for at in together if step.first <= at < step.last)
        allowed = QUOTA * step.factor * (step.last - step.first)
        errors[f"error_at_{step.factor:g}_percent"] = 100 * (admitted / allowed - 1)
    first, last = ramp[0].first, ramp[-1].last
    inside = [[at for at in of_one if first <= at < last] for of_one in times]
    return {
        **errors,
        "worst_step_error_percent": max(errors.values(), key=abs),
        "longest_gap_s": longest_gap(itertools.chain.from_iterable(inside)),
        # The edges count too: one that gets nothing has no gap between two.
        "longest_gap_of_a_producer_s": max(longest_gap([first, *of_one, last]) for of_one in inside),
    }


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


SCENARIOS = (
    Scenario(
        "storage-quota",
        "a volume fills: rate along the ramp, time to the pause, bytes after it, gaps, recovery",
        (SLUICEGATE, STRIMZI),
        _storage_quota,
        rounds=3,
        cold_round=False,
    ),
)
