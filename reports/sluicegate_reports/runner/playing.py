"""Plays the plan of one arm: all its clients, in one event loop."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sluicegate_reports.model.observations import Event
from sluicegate_reports.runner import payload
from sluicegate_reports.runner.clients.base import (
    ClientDriver,
    Delivery,
    DrivenProducer,
    FailedError,
    RefusedError,
)
from sluicegate_reports.runner.pacing import Stretch, due
from sluicegate_reports.runner.plan import ArmPlan, ConsumerPlan, ProducerPlan
from sluicegate_reports.runner.watching import Watch, now_us

_FLUSH_S = 1.0
_ATTACH_S = 60.0
"""How long the first phase waits at most for the clients that attach before it."""
_CLOSE_S = 10.0
_LEAVE_S = 0.5
"""How long a client that leaves before the end waits for answers."""
_QUIET_S = 1.0
"""Consumers that have received all acknowledged messages are idle after this time without a message."""
_MISSING_S = 5.0
"""Consumers that lack messages are idle after this time: on a slow machine they may only be late."""
_DRAINS = 10
"""How many times longer than planned the drain may last."""
_NO_ANSWER_S = 8.0
"""Pause after an attempt to attach that was neither admitted nor refused: longer than the session time-out of
a group's member, so that the broker has dropped what the attempt may have left behind."""

_Plan = TypeVar("_Plan", ProducerPlan, ConsumerPlan)
_NO_PLACE = FailedError("NoAnswer", "neither let in nor refused before the end of the run")


@dataclass(slots=True)
class Clock:
    """The time of the run: 0 is the beginning of the first phase."""

    began: asyncio.Event = field(default_factory=asyncio.Event)
    zero: float = math.inf
    zero_us: int = 0
    read_until_us: int = 0
    """When consumers stopped reading."""

    def begin(self) -> None:
        """It begins now."""
        self.zero, self.zero_us = time.monotonic(), now_us()
        self.began.set()

    @property
    def now_s(self) -> float:
        """Seconds since the beginning; below 0 before it."""
        return time.monotonic() - self.zero

    async def until(self, at_s: float) -> None:
        """Wait for a time of the run."""
        await self.began.wait()
        remaining = at_s - self.now_s
        if remaining > 0:
            await asyncio.sleep(remaining)


class _Part(Generic[_Plan]):
    """What one client does of the plan."""

    def __init__(self, plan: _Plan, watch: Watch, clock: Clock) -> None:
        self._plan: _Plan = plan
        self._watch, self._clock = watch, clock
        self.tried = asyncio.Event()
        """Set after its first attempt to attach, or at once if it attaches during the run."""

    async def _attach(self, attempt: Callable[[], Awaitable[RefusedError | None]]) -> bool:
        """Try to attach when the plan says, again and again, until it is let in.

        :param attempt: tries once, and gives what came of it.
        :return: False if it was refused and is not to try again.
        """
        plan, recorded, no_answer = self._plan, False, _NO_PLACE
        if plan.start_s > 0:
            self.tried.set()
            await self._clock.until(plan.start_s)
        trying_ns = time.monotonic_ns()
        try:
            while (refusal := await attempt()) is not None:
                if isinstance(refusal, FailedError):
                    no_answer = refusal
                    await asyncio.sleep(_NO_ANSWER_S)
                    continue
                self._watch.attached(plan, Event.ATTACH_REFUSED, refusal, trying_ns)
                recorded = True
                self.tried.set()
                if not plan.retry_s or self._clock.now_s + plan.retry_s >= plan.stop_s:
                    return False
                await asyncio.sleep(plan.retry_s)
                trying_ns = time.monotonic_ns()
        except asyncio.CancelledError:
            if not recorded:
                self._watch.attached(plan, Event.ATTACH_REFUSED, no_answer, trying_ns)
            raise
        self._watch.attached(plan, Event.ATTACHED, None, trying_ns)
        self.tried.set()
        return True


class _ProducerPart(_Part[ProducerPlan]):
    """One producer's part.

    :param index: its index in the plan, which its payloads carry.
    :param end_s: when the last phase ends: who leaves before does not wait for the others.
    """

    def __init__(
        self, index: int, plan: ProducerPlan, made: DrivenProducer, watch: Watch, clock: Clock, end_s: float
    ) -> None:
        super().__init__(plan, watch, clock)
        self._index, self._made, self._end_s = index, made, end_s
        self._there = False
        self._gone = False
        self._slots = asyncio.Semaphore(plan.in_flight)
        self._next = 0
        self._answers: dict[asyncio.Task[RefusedError | None], tuple[payload.Stamp, int]] = {}

    async def play(self) -> None:
        """From attaching to leaving."""
        plan = self._plan
        try:
            self._there = await self._attach(self._try_attach)
            if not self._there:
                await self.finish(0.0)
                return
            for stretch in plan.stretches:
                await self._send_all(stretch)
            await self._clock.until(plan.stop_s)
            if plan.stop_s < self._end_s:
                await self.finish(_LEAVE_S)
        finally:
            self.tried.set()

    async def finish(self, within_s: float) -> None:
        """Wait for answers, then leave; messages without an answer have failed."""
        if self._gone:
            return
        self._gone = True
        if self._answers:
            await asyncio.wait(set(self._answers), timeout=max(within_s, 0.01))
        waiting = dict(self._answers)
        self._answers.clear()
        for task, (stamp, began_ns) in waiting.items():
            task.cancel()
            nothing = FailedError("NoAnswer", "no answer before the end of the run")
            self._watch.answered(self._plan, stamp, nothing, began_ns)
        leaving_ns = time.monotonic_ns()
        await _within(self._made.close())
        if self._there:
            self._watch.attached(self._plan, Event.DETACHED, None, leaving_ns)

    async def _try_attach(self) -> RefusedError | None:
        refused = await _outcome(self._made.attach())
        if refused is not None or not self._made.attaches_by_publishing:
            return refused
        # A message that is on its way stays there when the waiting for it ends.
        refused = await asyncio.shield(self._send(self._watch.phase))
        return refused if refused is not None and self._made.turned_away(refused) else None

    async def _send_all(self, stretch: Stretch) -> None:
        await self._clock.until(stretch.start_s)
        if math.isinf(stretch.rate):
            while self._clock.now_s < stretch.end_s:
                await self._slots.acquire()
                self._send(stretch.phase)
                await asyncio.sleep(0)
            return
        for at_s in due(stretch):
            # What a rate has held back is sent late, but not after its phase.
            await self._clock.until(at_s)
            await self._slots.acquire()
            if self._clock.now_s >= stretch.end_s:
                self._slots.release()
                return
            self._send(stretch.phase)

    def _send(self, phase: int) -> "asyncio.Task[RefusedError | None]":
        stamp = payload.Stamp(self._index, phase, self._next, now_us())
        self._next += 1
        began_ns = time.monotonic_ns()
        self._watch.sent(self._plan, stamp)
        content = payload.write(stamp, self._plan.size)
        task = asyncio.ensure_future(_outcome(self._made.publish(content)))
        self._answers[task] = (stamp, began_ns)
        task.add_done_callback(self._answered)
        return task

    def _answered(self, task: "asyncio.Task[RefusedError | None]") -> None:
        self._slots.release()
        known = self._answers.pop(task, None)
        if known is None or task.cancelled():
            return
        stamp, began_ns = known
        self._watch.answered(self._plan, stamp, task.result(), began_ns)


class _ConsumerPart(_Part[ConsumerPlan]):
    """One consumer's part."""

    def __init__(self, plan: ConsumerPlan, driver: ClientDriver, watch: Watch, clock: Clock) -> None:
        super().__init__(plan, watch, clock)
        self._made = driver.consumer(plan)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False

    def _deliver(self, delivery: Delivery) -> None:
        """Take a message; called from any thread."""
        self._watch.received(self._plan, delivery.payload)
        if delivery.acknowledge is None:
            return
        if self._plan.acknowledge_after_s and self._loop is not None:
            # The run may be over by then, and its loop closed.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(
                    self._loop.call_later, self._plan.acknowledge_after_s, self._acknowledge, delivery
                )
        else:
            self._acknowledge(delivery)

    def _acknowledge(self, delivery: Delivery) -> None:
        if delivery.acknowledge is not None and not self._closing:
            self._watch.acknowledging(self._plan, delivery.payload)
            delivery.acknowledge()

    async def play(self) -> None:
        """From attaching to leaving, or until it is cancelled."""
        plan = self._plan
        self._loop = asyncio.get_running_loop()
        leaves = False
        try:
            if not await self._attach(lambda: _outcome(self._made.attach(self._deliver))):
                return
            await (self._clock.until(plan.stop_s) if math.isfinite(plan.stop_s) else asyncio.Event().wait())
            leaves = True
        finally:
            self.tried.set()
            leaving_ns = time.monotonic_ns()
            self._closing = True
            await _within(self._made.close())
            if leaves:
                self._watch.attached(plan, Event.DETACHED, None, leaving_ns)


async def play(plan: ArmPlan, driver: ClientDriver, watch: Watch, clock: Clock) -> None:
    """Play a plan to its end.

    :param driver: makes the clients.
    :param clock: started once the first clients have attached.
    """
    end_s = plan.phases[-1].end_s
    consumers = [_ConsumerPart(each, driver, watch, clock) for each in plan.consumers]
    producers = [
        _ProducerPart(index, each, driver.producer(each), watch, clock, end_s)
        for index, each in enumerate(plan.producers)
    ]
    flushing = asyncio.ensure_future(_flush(watch))
    reading = [asyncio.ensure_future(part.play()) for part in consumers]
    await _all_tried(part.tried for part in consumers)
    writing = [asyncio.ensure_future(part.play()) for part in producers]
    await _all_tried(part.tried for part in producers)
    clock.begin()
    for index, phase in enumerate(plan.phases):
        watch.phase = index
        await clock.until(phase.end_s)
    await clock.until(end_s + 0.05)
    drained = asyncio.ensure_future(_drained(plan, watch, clock))
    await asyncio.gather(*(_end(part, task, plan) for part, task in zip(producers, writing, strict=True)))
    await drained
    clock.read_until_us = now_us()
    for task in [*reading, flushing]:
        task.cancel()
    for outcome in await asyncio.gather(*reading, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome


async def _drained(plan: ArmPlan, watch: Watch, clock: Clock) -> None:
    """Wait for the drain time, and longer while messages still arrive: late messages are not lost."""
    drained_s = plan.phases[-1].end_s + plan.drain_s
    received = -1
    while watch.counts["received"] != received and clock.now_s < drained_s + _DRAINS * plan.drain_s:
        received = watch.counts["received"]
        quiet_s = _QUIET_S if received >= watch.awaited else _MISSING_S
        await clock.until(max(drained_s, clock.now_s + quiet_s))


async def _end(part: _ProducerPart, task: "asyncio.Task[None]", plan: ArmPlan) -> None:
    await asyncio.wait([task], timeout=0.1)
    if not task.done():
        task.cancel()
    outcome = (await asyncio.gather(task, return_exceptions=True))[0]
    if isinstance(outcome, Exception):
        raise outcome
    await part.finish(plan.drain_s)


async def _all_tried(tried: Iterable[asyncio.Event]) -> None:
    waiting = [asyncio.ensure_future(each.wait()) for each in tried]
    if waiting:
        _, late = await asyncio.wait(waiting, timeout=_ATTACH_S)
        for task in late:
            task.cancel()


async def _outcome(work: Awaitable[None]) -> RefusedError | None:
    """Run an operation of a client: its refusal or failure, or None if it succeeded."""
    try:
        await work
    except RefusedError as refusal:
        return refusal
    except Exception as error:  # noqa: BLE001 - users see whatever the library raises
        return FailedError(type(error).__name__, " ".join(str(error).split()))
    return None


async def _within(closing: Awaitable[None]) -> None:
    """Close a client; a hanging client must not delay the others."""
    try:
        await asyncio.wait_for(closing, _CLOSE_S)
    except TimeoutError:
        return


async def _flush(watch: Watch) -> None:
    while True:
        await asyncio.sleep(_FLUSH_S)
        await asyncio.to_thread(watch.flush)
