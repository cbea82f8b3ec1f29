"""An epoch: some connections of one front, played and damaged by chance, the same each time for one seed."""

import gc
import random
import runpy
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol

from tests.bench import SECOND, START
from tests.fuzz.link import Ends, FoundError, Link, Meter, Slow, limit_ns
from tests.fuzz.mutating import LARGEST_READ, Framing, mutate
from tests.fuzz.services import Bench

_MOST_LINKS = 6
_LONG = 64 * 1024
"""Bytes from which what is sent seldom arrives in one read."""
_DAMAGED = (0.02, 0.1, 0.4, 1.0)
"""Share of what is said that is damaged, in different epochs: with little of it, sessions come far."""
_LATER = 3600 * SECOND
MEASURED = 8
"""How often a turn has to take too long before it counts."""
_ROOT = Path(__file__).resolve().parents[2]
_IDLE_S = 2.0
"""What `.ci/speed.py` takes, as `.ci/run` says."""


class Front(Protocol):
    """A broker's front, and who connects to it."""

    @property
    def framing(self) -> Framing:
        """How its frames are cut."""

    @property
    def bench(self) -> Bench:
        """What it got from the gateway."""

    def connect(self, number: int, now_ns: int) -> Ends:
        """A new connection."""

    def change(self) -> None:
        """Other policies are in force."""

    def tick(self, now_ns: int) -> None:
        """A second has passed."""

    def check(self, now_ns: int) -> None:
        """All connections are closed.

        :raises FoundError: if anything is left of them.
        """


MakeFront = Callable[[Random], Front]


@dataclass
class Tally:
    """What an epoch came to."""

    frames: int = 0
    """Frames that were given to sessions that were open."""
    damaged: int = 0
    """Those among them that a mutator had a hand in."""
    connections: int = 0
    closes: dict[str, int] = field(default_factory=dict)
    """Connections that the gate closed, by its reason."""
    most_held: int = 0


class Epoch:
    """One epoch.

    :param make_front: of the protocol.
    :param seed: with it, everything is the same again.
    :param frames: after which it ends.
    :param meter: measures its turns.
    """

    def __init__(self, make_front: MakeFront, seed: str, frames: int, meter: Meter) -> None:
        self.chance = Random(seed)
        random.seed(seed)  # what the product draws
        self.now = START
        self.tally = Tally()
        self.links: list[Link] = []
        self.front = make_front(self.chance)
        self._frames = frames
        self._meter = meter
        self._damaged = self.chance.choice(_DAMAGED)

    def play(self, at_rest: Callable[["Epoch"], None] | None = None) -> Tally:
        """Play it to its end.

        :param at_rest: called with the connections still open, once all is played.
        :raises FoundError: if a rule is broken; any other exception is an uncaught one of the product.
        """
        while self.tally.frames < self._frames:
            self._step()
        if at_rest is not None:
            at_rest(self)
        for link in self.links:
            link.hang_up(self.now)
            self._forget(link)
        self.links.clear()
        self.now += _LATER
        for _ in range(20):
            self.now += SECOND
            self.front.tick(self.now)
        self.front.check(self.now)
        return self.tally

    def _step(self) -> None:
        chance = self.chance
        if len(self.links) < _MOST_LINKS and (not self.links or chance.random() < 0.05):
            self.links.append(Link(self.front.connect(self.tally.connections, self.now), self._meter))
            self.tally.connections += 1
        link = chance.choice(self.links)
        if not (chance.random() < 0.7 and link.go_on(self.now)):
            self._act(link, chance.random())
        budget = self.front.bench.budget
        if budget.used > self.tally.most_held:
            self.tally.most_held = budget.used
            if budget.used > budget.limit:
                raise FoundError(f"{budget.used} bytes are held, of {budget.limit} in the budget")
        for each in [each for each in self.links if each.is_closed]:
            self._forget(each)
            self.links.remove(each)

    def _act(self, link: Link, what: float) -> None:
        if what < 0.5:
            self._client(link)
        elif what < 0.88:
            self._broker(link)
        elif what < 0.96:
            self._wait(link)
        else:
            self._turn_of_the_gateway(link, what)

    def _turn_of_the_gateway(self, link: Link, what: float) -> None:
        """What happens seldom, and is not said by either side."""
        chance = self.chance
        if what < 0.975:
            self.front.change()
        elif what < 0.98:
            self.front.tick(self.now)
        elif what < 0.985:
            link.hang_up(self.now)
        elif what < 0.99:
            if not link.refuse_dialling(self.now) and hasattr(link.session, "ending"):
                for _ in range(chance.choice((1, 3))):
                    link.end(self.now)
        elif link.wake_ns is not None:
            link.wake(self.now, client_gone=chance.random() < 0.5)

    def _client(self, link: Link) -> None:
        sent, damaged = self._damage(link.ends.client_says())
        link.ends.client_sent(sent, damaged)
        self._count(sent, damaged)
        unread = self.chance.random() < 0.5
        for read in self._reads(sent):
            link.client_sends(read, self.now, unread)

    def _broker(self, link: Link) -> None:
        if not link.has_broker or not (said := link.ends.broker_says()):
            return
        sent, damaged = self._damage(said)
        link.ends.broker_sent(sent, damaged)
        self._count(sent, damaged)
        unread = self.chance.random() < 0.3
        for read in self._reads(sent):
            link.broker_sends(read, self.now, unread)

    def _wait(self, link: Link) -> None:
        self.now += self.chance.choice((1, SECOND // 1000, SECOND // 10, SECOND, 40 * SECOND))
        for each in self.links:
            if each.wake_ns is not None and each.wake_ns <= self.now and not each.is_closed:
                each.wake(self.now)

    def _damage(self, frames: list[bytes]) -> tuple[list[bytes], bool]:
        if self.chance.random() >= self._damaged:
            return frames, False
        return mutate(frames, self.chance, self.front.framing), True

    def _count(self, frames: list[bytes], damaged: bool) -> None:
        self.tally.frames += len(frames)
        if damaged:
            self.tally.damaged += len(frames)

    def _reads(self, frames: list[bytes]) -> list[bytes]:
        """Cut what is sent as sockets cut it: mostly whole, at times anywhere, at times into single bytes."""
        chance, data = self.chance, b"".join(frames)
        how = chance.random()
        if how < (0.6 if len(data) <= _LONG else 0.1) and len(data) <= LARGEST_READ:
            return [data]
        if how < 0.63 and len(data) < 2_000:
            return [data[at : at + 1] for at in range(len(data))]
        places = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((1, 1, 2, 5))))
        cuts = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
        return [cut[at : at + LARGEST_READ] for cut in cuts if cut for at in range(0, len(cut), LARGEST_READ)]

    def _forget(self, link: Link) -> None:
        if link.closing is not None:
            counter = str(link.closing.counter or "")
            self.tally.closes[counter] = self.tally.closes.get(counter, 0) + 1


def measured_again(make_front: MakeFront, seed: str, frames: int, slow: dict[int, Slow]) -> None:
    """Measure what was over its limit again; what is left in `slow` took as long each time.

    On a busy machine the same work takes more CPU time. So what is still left has to be over the limit by as
    much as this machine is slower than an idle one.
    """
    for _ in range(MEASURED - 1):
        if not slow:
            return
        meter = Meter()
        meter.watched = dict.fromkeys(slow, 0)
        gc.collect()
        with suppress(Exception):  # it was told when it was first seen
            Epoch(make_front, seed, frames, meter).play()
        for turn, first in list(slow.items()):
            if turn in meter.slow:
                slow[turn] = first._replace(took_ns=min(first.took_ns, meter.watched[turn]))
            else:
                del slow[turn]
    factor = slowness() if slow else 1.0
    for turn, found in list(slow.items()):
        if found.took_ns <= factor * limit_ns(found.bytes_in_thread):
            del slow[turn]


def slowness() -> float:
    """How much more CPU time a fixed piece of work takes now than on an idle machine; 1 at least."""
    work = runpy.run_path(str(_ROOT / ".ci/speed.py"))["work"]
    began = time.thread_time()
    work()
    return max(1.0, (time.thread_time() - began) / _IDLE_S)


__all__ = ["MEASURED", "Epoch", "FoundError", "Front", "MakeFront", "Tally", "measured_again"]
