"""Real buckets on a machine that stalls, by a manual clock: what the decision log would have of them."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random

from sluicegate.demo.law import Admitted, Answered, Held, Limit
from sluicegate.engine.bucket import SECOND_NS, DualBucket
from sluicegate.engine.wait_queue import WaitQueue
from sluicegate.model import Operation, OperationKind

_EPOCH_NS = 1_780_000_000 * SECOND_NS
_LONGEST_STEP_NS = 50_000
_CLOCK_STEP_NS = 1_000_000
"""An adjustment of the wall clock; the law allows for two milliseconds between any two moments."""


@dataclass(frozen=True, slots=True)
class Load:
    """What happens to a bucket, and the machine that it is on."""

    seed: int
    limit: Limit
    size: int
    """Largest need of an operation."""
    at_once: int
    """Operations that wait together in one queue; 1 for a consumer that asks again and again."""
    pause_ns: int
    """Longest time from a client's answer to its next message."""
    stalls: tuple[tuple[int, int], ...] = ()
    """When the machine stalls and for how long, in ns."""
    until_ns: int = 5 * SECOND_NS


@dataclass(slots=True)
class Record:
    """What the decision log and the clients have of it."""

    admitted: list[Admitted] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    refused: list[Admitted] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)


class Machine:
    """One thread. What falls due while it stalls happens when the stall is over, in any order."""

    def __init__(self, load: Load) -> None:
        self.now_ns = 0
        self.random = Random(load.seed)
        self._stalls = load.stalls
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._number = count()

    def at(self, when_ns: int, action: Callable[[], None]) -> None:
        """Have something done, at this time or later."""
        heapq.heappush(self._due, (when_ns, next(self._number), action))

    def run(self, until_ns: int) -> None:
        """Do all that falls due before a time."""
        while self._due and self._due[0][0] < until_ns:
            self.now_ns = max(self.now_ns, self._due[0][0])
            for begin, length in self._stalls:
                if begin <= self.now_ns < begin + length:
                    self.now_ns = begin + length
            ready = []
            while self._due and self._due[0][0] <= self.now_ns:
                ready.append(heapq.heappop(self._due)[2])
            self.random.shuffle(ready)
            for action in ready:
                self.now_ns += self.random.randrange(_LONGEST_STEP_NS)
                action()

    def wall_s(self) -> float:
        """The time that the log tells: microseconds, of a clock that was adjusted once."""
        adjusted = self.now_ns + (_CLOCK_STEP_NS if self.now_ns > SECOND_NS else 0)
        return round((_EPOCH_NS + adjusted) / 1000) / 1e6


def simulate(load: Load, factor: float = 1.0, *, refusing: bool = False) -> Record:
    """Let clients run into a bucket.

    :param factor: what the bucket makes of its rate and its burst; 1 is right.
    :param refusing: True for a limit that refuses and lets nobody wait.
    """
    machine, record = Machine(load), Record()
    limit = load.limit
    bucket = DualBucket(limit.rate * factor, 0, limit.burst / limit.rate, 0)
    # A queue lets those behind ask first where the one in front wakes up late.
    queue = WaitQueue(bucket)

    def client(begun_s: float | None = None, op: Operation | None = None) -> None:
        now_s = machine.wall_s()
        begun_s = now_s if begun_s is None else begun_s
        new = op is None
        if op is None:
            op = Operation(OperationKind.PUBLISH, "t", messages=machine.random.randint(1, load.size), bytes=0)
        if refusing or load.at_once == 1:
            wait_ns = bucket.take(op.messages, 0, machine.now_ns)
        else:
            wait_ns = queue.take(op, machine.now_ns)
        if wait_ns and refusing:
            record.refused.append(Admitted(now_s, op.messages))
        elif wait_ns:
            if new:
                record.held.append(Held(now_s, wait_ns / 1e9, op.messages))
            waiting = op
            machine.at(machine.now_ns + wait_ns, lambda: client(begun_s, waiting))
            return
        else:
            record.admitted.append(Admitted(now_s, op.messages))
            late_s = machine.random.random() * 0.01
            record.answered.append(Answered(begun_s, now_s + late_s, op.messages))
        machine.at(machine.now_ns + machine.random.randint(0, load.pause_ns), client)

    for _ in range(load.at_once):
        machine.at(machine.random.randint(0, load.pause_ns), client)
    machine.run(load.until_ns)
    return record
