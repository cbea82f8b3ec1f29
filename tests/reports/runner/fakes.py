"""Clients that behave as a test says; a driver for plans that name `tests.reports.runner.fakes:Driver`."""

import asyncio
from dataclasses import dataclass, field

from sluicegate_reports.runner.clients.base import Delivery, FailedError, OnDelivery, RefusedError
from sluicegate_reports.runner.plan import ArmPlan, ConsumerPlan, ProducerPlan


@dataclass(slots=True)
class Behaviour:
    """What the system does."""

    refuse_attach: int = 0
    """How many times a client is refused before it is let in."""
    refuse: str = ""
    """Code that every message is refused with."""
    bug: str = ""
    """Text of what the library raises for every message."""
    hang: bool = False
    """No message is ever answered."""
    lose: bool = False
    """What is acknowledged is not delivered."""
    by_publishing: bool = False
    fail_attach: int = 0
    """How many attempts to attach, of all clients together, have no answer."""
    hang_attach: bool = False
    """Nobody is ever let in, and nobody refused."""
    most_waiting: int = 0
    """How many messages waited at once at most."""
    readers: list[OnDelivery] = field(default_factory=list)
    acknowledged: int | None = None
    """Messages that consumers have acknowledged; None where the system knows no such thing."""

    async def answer_attach(self) -> None:
        """Answer an attempt to attach, or fail to."""
        if self.hang_attach:
            await asyncio.Event().wait()
        if self.fail_attach:
            self.fail_attach -= 1
            raise FailedError("NoBroker", "not reachable")

    def consumed(self) -> None:
        """One more was acknowledged."""
        self.acknowledged = (self.acknowledged or 0) + 1


class Driver:
    """A `ClientDriver` without a network: what is published is delivered to all who read."""

    def __init__(self, plan: ArmPlan, behaviour: Behaviour | None = None) -> None:
        self.behaviour = behaviour or Behaviour()

    def producer(self, plan: ProducerPlan) -> "Producer":
        return Producer(self.behaviour)

    def consumer(self, plan: ConsumerPlan) -> "Consumer":
        return Consumer(self.behaviour)


class Producer:
    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._refusals = behaviour.refuse_attach
        self._waiting = 0
        self.attaches_by_publishing = behaviour.by_publishing

    def turned_away(self, refusal: RefusedError) -> bool:
        return refusal.code == "AWAY"

    async def attach(self) -> None:
        await self._behaviour.answer_attach()
        if self._refusals:
            self._refusals -= 1
            raise RefusedError("FULL", "no room")

    async def publish(self, payload: bytes) -> None:
        own = self._behaviour
        self._waiting += 1
        own.most_waiting = max(own.most_waiting, self._waiting)
        try:
            if own.hang:
                await asyncio.Event().wait()
            if own.bug:
                raise LookupError(own.bug)
            if own.refuse:
                raise RefusedError(own.refuse)
            for deliver in () if own.lose else own.readers:
                deliver(Delivery(payload, own.consumed if own.acknowledged is not None else None))
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        pass


class Consumer:
    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    async def attach(self, deliver: OnDelivery) -> None:
        await self._behaviour.answer_attach()
        self._behaviour.readers.append(deliver)

    async def close(self) -> None:
        pass
