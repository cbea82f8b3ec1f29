"""What fronts get from the gateway, with policies of every kind, drawn by chance."""

import asyncio
from collections.abc import Coroutine, Mapping
from random import Random
from typing import Any

from tests.bench import START
from tests.bench import Bench as AnyBench
from tests.fuzz.link import FoundError

from sluicegate.engine.state import TopicState
from sluicegate.model import PolicyValue

_WALL_MS = 1_750_000_000_000
POLICIES: Mapping[str, tuple[PolicyValue, ...]] = {
    "max_producers_per_topic": (0, 1, 3),
    "max_consumers_per_topic": (0, 1, 3),
    "max_consumers_per_subscription": (0, 1, 3),
    "max_subscriptions_per_topic": (0, 1, 3),
    "max_publish_rate": (1, 50, 1_000_000),
    "max_publish_rate_bytes": (100, 100_000, 1 << 40),
    "max_dispatch_rate": (1, 50, 1_000_000),
    "max_dispatch_rate_bytes": (100, 100_000, 1 << 40),
    "max_subscription_dispatch_rate": (1, 50, 1_000_000),
    "max_subscription_dispatch_rate_bytes": (100, 1 << 40),
    "burst_seconds": (0.1, 3),
    "max_message_size": (10, 100, 100_000),
    "inspect": (True,),
    "max_unacked_messages_per_consumer": (1, 10, 100_000),
    "connection_rate_limit": (1, 1_000),
    "publish_quota": (10, 1_000_000),
    "publish_quota_bytes": (1_000, 1 << 40),
    "principal_publish_quota": (10, 1_000_000),
    "principal_publish_quota_bytes": (1_000, 1 << 40),
    "fixed_delivery_delay": (1, 500, 60_000),
    "delay_clock": ("arrival",),
    "max_delivery_delay": (1, 60_000),
    "on_limit.max_publish_rate": ("delay", "reject"),
    "on_limit.max_publish_rate_bytes": ("delay", "reject"),
    "on_limit.max_dispatch_rate": ("delay", "drop"),
    "on_unknown.max_subscriptions_per_topic": ("open", "pause", "last"),
}
PATTERNS = ("*", "*a*", "*-*-*-*-*z", "*-*.*/*-*-z*", "*x*x*x*x*x*")
"""Names of topics in policies; several stars have many ways through a name such as LONG."""
LONG = "-" * 60 + "x"
"""A name that nearly matches."""


class Bench(AnyBench):
    """Services whose clock stands until it is turned, and which open nothing."""

    def wall_ms(self, now_ns: int) -> int:
        """Wall-clock time that follows from the monotonic one alone."""
        return _WALL_MS + (now_ns - START) // 1_000_000

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Nothing runs in the background."""
        work.close()

    def draw(self, chance: Random, topics: tuple[str, ...], without: frozenset[str]) -> None:
        """Put a few policies in force for all topics, and others for one of them or for those of a pattern.

        :param without: policies that the broker's driver does not have.
        """
        self.set(_drawn(chance, without, chance.choice((0, 1, 3, 8))))
        if chance.random() < 0.5:
            self.set_topic(chance.choice((*topics, *PATTERNS)), **dict(_drawn(chance, without, 2)))


def _drawn(chance: Random, without: frozenset[str], count: int) -> Mapping[str, PolicyValue]:
    fields = chance.sample([field for field in POLICIES if field not in without], count)
    return {field: chance.choice(POLICIES[field]) for field in fields}


class AnyFuzz:
    """A front under policies that chance draws.

    :param topics: whose policies change.
    :param without: policies that the broker's driver does not have.
    """

    def __init__(self, chance: Random, topics: tuple[str, ...], without: frozenset[str]) -> None:
        self.chance = chance
        self.bench = Bench()
        self._topics = topics
        self._without = without

    def change(self) -> None:
        """Put other policies in force."""
        self.bench.draw(self.chance, self._topics, self._without)

    def left(self, sessions: int, states: Mapping[str, TopicState]) -> None:
        """See that nothing outlives its connection.

        :raises FoundError: if bytes, sessions, producers or consumers do.
        """
        if self.bench.budget.used or sessions:
            raise FoundError(f"{self.bench.budget.used} bytes, {sessions} sessions are left")
        left = [name for name, state in states.items() if state.producers or state.consumer_count]
        if left:
            raise FoundError(f"producers or consumers are left of {left}")


def now(work: Coroutine[Any, Any, None]) -> None:
    """Run what waits for nothing."""
    asyncio.run(work)
