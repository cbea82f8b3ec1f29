"""Whether two gateways of real processes keep one limit on producers: `python -m benchmarks.fleet_places`.

100 named Pulsar producers want 10 places of a topic, at two gateways that share the limit through a Redis.
One gateway is killed (`kill -9`) and started again, then the other. Whoever loses its connection, or is
refused, tries again at one of the two. A stand-in for the broker notes who is attached: it must never be more
than 10 of different names, and 10 again within `place_lease` and a second. The exit code is 1 otherwise.
"""

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.harness.fleet_cli import options, play
from benchmarks.harness.fleet_clients import RefusedError, attach, frame, running
from benchmarks.harness.fleet_events import Tell, eventually
from benchmarks.harness.fleet_processes import Fleet
from benchmarks.harness.noted import Noted

_TOPIC = "persistent://public/default/orders"
_ALLOWANCE_S = 1.0


@dataclass(frozen=True)
class Scene:
    """One run."""

    producers: int = 100
    places: int = 10
    place_lease_s: float = 3.0
    lease_ms: int = 200
    timeout_ms: int = 20
    workers: int = 2
    settle_s: float = 3.0
    """How long nothing happens before a gateway is killed."""
    retry_s: float = 0.5
    """How long a producer waits before it tries again, on average."""


@dataclass(frozen=True)
class Seen:
    """What came of a run."""

    scene: Scene
    most: int
    """Producers of different names that were attached at once."""
    back_s: Sequence[float]
    """After each kill, until as many as there are places were attached again."""

    @property
    def is_kept(self) -> bool:
        """Whether there never were too many, and soon enough again."""
        soon = max(self.back_s) <= self.scene.place_lease_s + _ALLOWANCE_S
        return self.most <= self.scene.places and soon


class _Producer:
    """One that wants a place all the time."""

    def __init__(self, number: int, fleet: Fleet, retry_s: float) -> None:
        self.port = 0
        """Of the gateway that it is attached at; 0 if it is not."""
        self._number = number
        self._fleet = fleet
        self._retry_s = retry_s
        self._chance = random.Random(number)

    async def run(self) -> None:
        """Attach whenever it is not; first they take turns at the gateways, so that each has some."""
        gateway = self._fleet.gateways[self._number % len(self._fleet.gateways)]
        while True:
            with suppress(OSError, EOFError, RefusedError):
                await self._attached(gateway.port)
            await asyncio.sleep(self._chance.uniform(0.5, 1.5) * self._retry_s)
            gateway = self._chance.choice(self._fleet.gateways)

    async def _attached(self, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            await attach(reader, writer, _TOPIC, f"producer-{self._number}")
            self.port = port
            while True:
                await frame(reader)
        finally:
            self.port = 0
            writer.transport.abort()


def played(scene: Scene, directory: Path, tell: Tell) -> Seen:
    """Run a fleet and its producers.

    :param directory: for what the processes write.
    :param tell: is called with each step.
    :raises UnavailableError: if a program is missing or does not start.
    :raises RuntimeError: if the places are not all taken in minutes.
    """
    policies = {"broker": {"max_producers_per_topic": scene.places}}
    budgets = {
        "lease": f"{scene.lease_ms}ms",
        "timeout": f"{scene.timeout_ms}ms",
        "place_lease": f"{scene.place_lease_s * 1000:.0f}ms",
    }
    with ExitStack() as stack:
        fleet = Fleet(stack, directory, "pulsar", policies, budgets, scene.workers)
        tell("all processes serve")
        kills_s = asyncio.run(_killed(scene, fleet, tell))
        fleet.upstream.stop()
    attached = Noted.read(fleet.notes).attached
    back_s = [_back_s(attached, at_s, scene.places) for at_s in kills_s]
    return Seen(scene, max(count for _, count in attached), back_s)


async def _killed(scene: Scene, fleet: Fleet, tell: Tell) -> list[float]:
    """Kill and restart each gateway; returns when each was killed."""
    producers = [_Producer(number, fleet, scene.retry_s) for number in range(scene.producers)]
    kills_s = []

    async def are_taken(but: int = 0) -> bool:
        return sum(each.port not in (0, but) for each in producers) == scene.places

    async with AsyncExitStack() as stack:
        for some in (producers[: scene.places], producers[scene.places :]):
            await stack.enter_async_context(running(*(each.run() for each in some)))
            await eventually(are_taken, "all places are taken")
        for name, gateway in zip(("one", "two"), fleet.gateways, strict=True):
            await asyncio.sleep(scene.settle_s)
            tell(f"gateway {name} is killed")
            kills_s.append(time.monotonic())
            await asyncio.to_thread(gateway.kill)
            await eventually(partial(are_taken, gateway.port), "all places are taken again")
            tell(f"all places are taken again after {time.monotonic() - kills_s[-1]:.2f} s")
            await asyncio.to_thread(gateway.start_again)
        await asyncio.sleep(scene.settle_s)
    return kills_s


def _back_s(attached: Sequence[tuple[int, int]], killed_s: float, places: int) -> float:
    """How long after a time all places were taken for the first time; 0 if none became free."""
    since = [(at_ns / 1e9 - killed_s, count) for at_ns, count in attached if at_ns / 1e9 >= killed_s]
    return next((after_s for after_s, count in since if count == places), 0.0)


def report(seen: Seen) -> list[str]:
    """The figures, a line each."""
    scene = seen.scene
    bound_s = scene.place_lease_s + _ALLOWANCE_S
    return [
        f"{scene.producers} producers, {scene.places} places, 2 gateways x {scene.workers} workers",
        f"most at once: {seen.most}",
        *(
            f"all places taken again after gateway {name} was killed: {back_s:.2f} s (at most {bound_s:g} s)"
            for name, back_s in zip(("one", "two"), seen.back_s, strict=True)
        ),
    ]


def parsed(arguments: Sequence[str] | None = None) -> tuple[Scene, Path | None]:
    """The scene that a command line asks for, and the folder that is kept."""
    read = vars(options(arguments, __doc__, vars(Scene()), {}))
    keep: Path | None = read.pop("keep")
    return Scene(**read), keep


def main() -> int:
    """Play one scene; returns the exit code."""
    scene, keep = parsed()
    seen = play(partial(played, scene), keep)
    print("\n".join(report(seen)))
    return int(not seen.is_kept)


if __name__ == "__main__":
    sys.exit(main())
