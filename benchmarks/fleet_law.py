"""Whether a fleet of real processes keeps one limit in every window: `python -m benchmarks.fleet_law`.

Two gateways with several workers each share a publish rate through a Redis, in front of a stand-in for a
broker that notes when each message arrives. Clients want twice the limit, nine tenths of it at one gateway,
and change sides after each event. One after the other, a worker is killed (`kill -9`), a worker is stopped
for some seconds, a gateway is killed and started again, the store is stopped, and the store is killed and
starts empty.

Every window is judged, on the one clock of the host, three times. `surely admitted` counts what was sent and
arrived within the window: it was admitted in it, so an excess is one of the gateways. `by decision logs` has
the time of each decision, but not what a killed process had not written yet; how many these are is shown.
`arrivals` is what the upstream saw: what the machine kept waiting on its way arrives together, so an excess
may be the machine's. The exit code is 1 if one of the first two shows an excess.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.harness.fleet_cli import options, play
from benchmarks.harness.fleet_clients import FleetClient, KafkaClient, PulsarClient, running
from benchmarks.harness.fleet_events import Event, Events, Tell, happened
from benchmarks.harness.fleet_processes import Fleet
from benchmarks.harness.noted import Noted
from sluicegate.decisions.reading import read_decisions
from sluicegate_reports.transforms.law import Moments, Unit, rise

_BURST_S = 1.0
_SETTLED_S = 2.0
"""After an event a second counts as quiet once so much time has passed."""
_CLIENTS = {"kafka": (KafkaClient, "orders"), "pulsar": (PulsarClient, "persistent://public/default/orders")}
"""The class of clients, and their topic."""
_DEMAND, _LARGE = 2.0, 0.9
_CLOCK_US = 2_000
"""The log's wall clock may be adjusted by so much against the monotonic clock."""


@dataclass(frozen=True)
class Scene:
    """One run."""

    system: str = "kafka"
    rate: int = 2_000
    """Messages a second."""
    seconds: float = 60.0
    stop_s: float = 3.0
    workers: int = 2
    clients: int = 8
    """Of each gateway."""
    lease_ms: int = 200
    timeout_ms: int = 20
    quiet: bool = False
    """Whether nothing is killed or stopped."""


@dataclass(frozen=True)
class Seen:
    """What came of a run."""

    scene: Scene
    noted: Noted
    decided: Moments
    events: Sequence[Event]
    began_s: float
    ended_s: float

    def excess(self, moments: Moments) -> float:
        """The most messages above rate x T + burst in any window; below 0 if there are fewer."""
        unit = Unit.of(self.scene.rate)
        return unit.amount(rise([moments], unit).rise) - self.scene.rate * _BURST_S

    def judged(self) -> dict[str, float]:
        """The excess by each of the three ways."""
        allowed = self.scene.rate * _CLOCK_US / 1e6
        return {
            "surely admitted": self.excess(self.noted.certain),
            "by decision logs": self.excess(self.decided) - allowed,
            "arrivals": self.excess(self.noted.arrivals),
        }

    def quiet_uses(self) -> list[float]:
        """Parts of the limit that were used in each whole second in which nothing happened."""
        ends = [self.began_s, *(each.ended_s + each.back_s for each in self.events)]
        begins = [*(each.began_s for each in self.events), self.ended_s]
        arrived_s, uses = self.noted.arrived_ns / 1e9, []
        for first, last in zip(ends, begins, strict=True):
            at = first + _SETTLED_S
            while at + 1 <= last:
                count = np.searchsorted(arrived_s, at + 1) - np.searchsorted(arrived_s, at)
                uses.append(float(count) / self.scene.rate)
                at += 1
        return uses


def played(scene: Scene, directory: Path, tell: Tell) -> Seen:
    """Run a fleet and its clients.

    :param directory: for what the processes write.
    :param tell: is called with each step.
    :raises UnavailableError: if a program is missing or does not start.
    :raises RuntimeError: if no message passes any more.
    """
    policies = {"broker": {"max_publish_rate": scene.rate, "burst_seconds": _BURST_S}}
    budgets = {"lease": f"{scene.lease_ms}ms", "timeout": f"{scene.timeout_ms}ms"}
    with ExitStack() as stack:
        fleet = Fleet(stack, directory, scene.system, policies, budgets, scene.workers)
        tell("all processes serve")
        began_s = time.monotonic()
        events = asyncio.run(_clients_and_events(scene, fleet, tell))
        ended_s = time.monotonic()
        for each in fleet.gateways:
            each.child.stop()
        fleet.upstream.stop()
        logs = [read_decisions(directory / name / "state" / "decisions") for name in ("one", "two")]
    return Seen(scene, Noted.read(fleet.notes), _admitted(pa.concat_tables(logs)), events, began_s, ended_s)


async def _clients_and_events(scene: Scene, fleet: Fleet, tell: Tell) -> list[Event]:
    kind, topic = _CLIENTS[scene.system]
    clients = [
        kind(f"{gateway.port}-{number}", topic, gateway.address, 1)
        for gateway in fleet.gateways
        for number in range(scene.clients)
    ]
    happenings = () if scene.quiet else Events(fleet, scene.stop_s).all()
    pause_s = scene.seconds / (len(happenings) + 1)
    _turn(scene, clients, busy=0)
    events: list[Event] = []
    async with running(*(each.run() for each in clients)):
        await asyncio.sleep(pause_s)
        for number, (what, happen) in enumerate(happenings, 1):
            events.append(await happened(what, happen, clients, tell))
            _turn(scene, clients, busy=number % 2)
            await asyncio.sleep(pause_s)
    return events


def _turn(scene: Scene, clients: Sequence[FleetClient], busy: int) -> None:
    """Have the clients of one gateway want most of it."""
    for number, each in enumerate(clients):
        part = _LARGE if number // scene.clients == busy else 1 - _LARGE
        each.pace = part * _DEMAND * scene.rate / scene.clients


def _admitted(log: pa.Table) -> Moments:
    passed = pc.and_(pc.equal(log["operation"], "publish"), pc.equal(log["action"], "allow"))
    log = log.filter(passed).sort_by("time")
    at_us = log["time"].cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.int64()).to_numpy()
    return Moments(at_us, at_us, log["messages"].cast(pa.int64()).to_numpy())


def report(seen: Seen) -> list[str]:
    """The figures, a line each."""
    scene, uses = seen.scene, seen.quiet_uses()
    lines = [
        f"{scene.system}: 2 gateways x {scene.workers} workers, {scene.rate} messages/s, "
        f"burst {_BURST_S:g} s, {seen.ended_s - seen.began_s:.0f} s",
        f"{'event':34}{'lasted':>10}{'messages pass after':>22}",
        *(f"{each.what:34}{each.ended_s - each.began_s:8.1f} s{each.back_s:20.2f} s" for each in seen.events),
    ]
    burst = scene.rate * _BURST_S
    for how, excess in seen.judged().items():
        verdict = "holds" if excess <= 0 else f"{excess:.0f} MORE than allowed"
        lines.append(f"{how:20} worst window: rate x T + {1 + excess / burst:7.2%} of the burst: {verdict}")
    arrived, decided = len(seen.noted.arrived_ns), int(seen.decided.amount.sum())
    lines.append(f"{arrived} messages arrived, {decided} are admitted in the logs")
    if uses:
        enough = sum(each >= 0.99 for each in uses)
        lines.append(
            f"{len(uses)} quiet seconds used {np.mean(uses):.2%} of the limit (least {min(uses):.2%}, "
            f"{enough} of them 99 % or more)"
        )
    return lines


def parsed(arguments: Sequence[str] | None = None) -> tuple[Scene, Path | None]:
    """The scene that a command line asks for, and the folder that is kept."""
    read = vars(options(arguments, __doc__, vars(Scene()), {"system": list(_CLIENTS)}))
    keep: Path | None = read.pop("keep")
    return Scene(**read), keep


def main() -> int:
    """Play one scene; returns the exit code."""
    scene, keep = parsed()
    seen = play(partial(played, scene), keep)
    print("\n".join(report(seen)))
    judged = seen.judged()
    return int(max(judged["surely admitted"], judged["by decision logs"]) > 0)


if __name__ == "__main__":
    sys.exit(main())
