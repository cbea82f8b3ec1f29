"""How gateways share limits, in simulated time: `python -m benchmarks.budget_fleet`.

Each gateway uses some of the limits, the popular ones more likely. Together they want twice each limit, or
more. Every second user of a limit wants `--skew` times what the others want, and at the turn the others do.

`--cut 1` keeps all gateways from the store for 2 s: each then spends its share. `--cut 0.5` keeps half of
them from it: they spend their shares beside the whole limit, which the others lease, so the bound does not
hold.
"""

import argparse
import asyncio
import logging
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from statistics import median

from benchmarks.budget_calls import CallCost, call_cost
from benchmarks.harness.redis import RedisServer, why_no_redis
from benchmarks.harness.simulated_fleet import BIN_NS, SimulatedFleet, SimulatedLimit, Weather
from sluicegate.engine.bucket import SECOND_NS

_BINS = SECOND_NS // BIN_NS
"""Bins of time in a second."""
_CUT_S = 2
_SMALL = 1000.0
"""Messages a second of the smaller demand."""


@dataclass(frozen=True)
class Scene:
    """One run."""

    gateways: int = 50
    limits: int = 500
    each: int = 20
    skew: float = 9.0
    latency_ms: float = 0.5
    loss: float = 0.0
    cut: float = 0.0
    after_s: int = 8
    """How long it goes on after the turn."""
    seed: int = 1

    @property
    def turn_s(self) -> int:
        """When the demand turns: once all is steady, and 2 s after the cut has ended."""
        return 8 if self.cut else 4


def played(scene: Scene) -> SimulatedFleet:
    """A fleet whose time has passed."""
    chance = random.Random(scene.seed)
    weather = Weather(scene.latency_ms / 1000, scene.loss, scene.cut, 4, 4 + _CUT_S, scene.turn_s)
    seconds = scene.turn_s + scene.after_s
    fleet = SimulatedFleet(scene.gateways, scene.limits, seconds, weather, chance)
    popular = list(accumulate(1 / (rank + 1) for rank in range(scene.limits)))
    for gateway in fleet.gateways:
        numbers: set[int] = set()
        while len(numbers) < min(scene.each, scene.limits):
            numbers.update(chance.choices(range(scene.limits), cum_weights=popular, k=1))
        for number in sorted(numbers):
            little = _SMALL * chance.uniform(0.8, 1.2)
            much = little * scene.skew
            is_first = len(fleet.limits[number].uses) % 2 == 0
            fleet.use(gateway, number, (much, little) if is_first else (little, much))
    fleet.run()
    return fleet


def uses(limit: SimulatedLimit, window_s: float, since_s: float) -> list[float]:
    """Parts of the limit that were spent in all windows since a time."""
    sums = [sum(of_bin) for of_bin in zip(*(each.spent for each in limit.uses), strict=True)]
    width, first = int(window_s * _BINS), int(since_s * _BINS)
    starts = range(first, len(sums) - width)
    return [sum(sums[at : at + width]) / (limit.rate * window_s) for at in starts]


def fair(demands: Sequence[float], rate: float) -> list[float]:
    """Max-min shares of a rate."""
    left, shares = rate, [0.0] * len(demands)
    for done, at in enumerate(sorted(range(len(demands)), key=demands.__getitem__)):
        shares[at] = min(demands[at], left / (len(demands) - done))
        left -= shares[at]
    return shares


def converged_s(limit: SimulatedLimit, turn_s: int) -> float:
    """Time after the turn from which max-min shares lack less than 5 % of the limit in each second."""
    shares = fair([each.demand[1] for each in limit.uses], limit.rate)
    first, bins = turn_s * _BINS, len(limit.uses[0].spent) - 1
    settled = first
    for at in range(first, bins - _BINS):
        spent = [sum(each.spent[at : at + _BINS]) for each in limit.uses]
        lacking = sum(max(0.0, share - got) for share, got in zip(shares, spent, strict=True))
        if lacking > 0.05 * limit.rate:
            settled = at + 1
    return (settled - first) / _BINS


def report(scene: Scene, fleet: SimulatedFleet, cost: CallCost | None) -> list[str]:
    """The figures, a line each."""
    used = [each for each in fleet.limits if each.uses]
    seconds = scene.turn_s + scene.after_s
    worst = max(each.excess / each.rate for each in used)
    holders = sorted(len(each.uses) for each in used)
    lines = [
        f"{scene.gateways} gateways, {len(used)} limits with {holders[0]} to {holders[-1]} holders",
        f"worst window: rate x T + {worst:.1%} of the burst",
    ]
    for window_s in (1, 2, 5):
        parts = [uses(each, window_s, scene.turn_s + 2) for each in used]
        least, middle = min(min(each) for each in parts), median(median(each) for each in parts)
        enough = sum(min(each) >= 0.99 for each in parts) / len(parts)
        lines.append(
            f"use in windows of {window_s} s, from 2 s after the turn: "
            f"least {least:.2%}, median {middle:.2%}; never below 99 %: {enough:.1%} of the limits"
        )
    after = [converged_s(each, scene.turn_s) for each in used]
    lines.append(
        f"shared max-min within 5 % after the turn: median {median(after):.1f} s, last {max(after):.1f} s"
    )
    calls, requests = fleet.calls / seconds, fleet.requests / seconds
    lines.append(f"store: {calls:.0f} calls/s with {requests / calls:.1f} limits each")
    if cost is not None:
        cpu, nbytes = cost.of(calls, requests)
        lines.append(f"store, by calls of a real Redis: {nbytes / 1e6:.2f} MB/s, {cpu:.1%} of a core")
    return lines


def _measured() -> CallCost | None:
    if why_no_redis():
        return None
    with tempfile.TemporaryDirectory() as directory, RedisServer(Path(directory)) as server:
        return asyncio.run(call_cost(server))


def main() -> None:
    """Play one scene."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in vars(Scene()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    scene = Scene(**vars(parser.parse_args()))
    logging.disable(logging.WARNING)
    print("\n".join(report(scene, played(scene), _measured())))


if __name__ == "__main__":
    main()
