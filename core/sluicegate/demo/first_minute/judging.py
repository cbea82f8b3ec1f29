"""Whether a play showed what the first minute claims, by ratios of what was measured in it."""

from dataclasses import dataclass

from sluicegate.demo.first_minute.record import Latency, Record, count

_SLOWER = 2
"""The neighbour's p99 must grow and fall by this factor at least, its p50 by the next."""
_SLOWER_MEDIAN = 3
_LEAST = 20
"""Messages of the neighbour that each part of a play needs."""


@dataclass(frozen=True, slots=True)
class Result:
    """One play in figures."""

    before: Latency
    during: Latency
    after: Latency
    rate_during: float
    """Acknowledged messages of the noisy producer per second, while nothing limited it."""
    rate_after: float
    limit: int
    """Messages per second that the command set."""
    problems: tuple[str, ...]
    """What it did not show, a sentence each."""


def judge(record: Record, limit: int, wait_s: float) -> Result:
    """Compare the parts of a play.

    :param limit: messages per second that the command set; the burst is as many.
    :param wait_s: how long a message waits in front of the slow disk at most.
    """
    noisy, limited, settled = record.noisy_at, record.limited_at, record.settled_at
    assert noisy is not None and limited is not None and settled is not None  # noqa: S101, PT018 - it was played
    before = record.latency(record.calm_at, noisy)
    # At first the queue is still short.
    during = record.latency(min(noisy + wait_s, limited), limited)
    after = record.latency(settled, record.ended_at)
    acknowledged = count(record.acknowledged, settled, record.ended_at)
    most = limit * (record.ended_at - settled + wait_s) + limit
    problems = [f"the neighbour's client was told: {error}" for error in record.errors[:1]]
    if min(before.count, during.count, after.count) < _LEAST:
        few = f"{before.count} before, {during.count} during and {after.count} after the noise"
        problems.append(f"too few of the neighbour's messages were acknowledged to judge by: {few}")
    elif not _grew(before, during):
        problems.append(f"the noisy producer did not ruin its neighbour's latency: {_change(before, during)}")
    elif not _grew(after, during):
        problems.append(f"the neighbour did not recover: {_change(during, after)}")
    if acknowledged > most:
        problems.append(f"{acknowledged} messages of the noisy producer passed, and {most:.0f} may")
    if not record.refusal:
        problems.append("the noisy producer's client was told nothing")
    return Result(
        before,
        during,
        after,
        count(record.acknowledged, noisy, limited) / (limited - noisy),
        acknowledged / (record.ended_at - settled),
        limit,
        tuple(problems),
    )


def _grew(low: Latency, high: Latency) -> bool:
    return high.p99 >= _SLOWER * low.p99 and high.p50 >= _SLOWER_MEDIAN * low.p50


def _change(first: Latency, second: Latency) -> str:
    return f"p99 {ms(first.p99)} -> {ms(second.p99)}, p50 {ms(first.p50)} -> {ms(second.p50)}"


def ms(seconds: float) -> str:
    """A latency in words, such as `1,013 ms`."""
    millis = seconds * 1_000
    return f"{millis:.1f} ms" if 0 < millis < 10 else f"{millis:,.0f} ms"
