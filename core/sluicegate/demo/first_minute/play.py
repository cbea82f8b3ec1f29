"""Leads one system through the first minute: the neighbour alone, the noise, the command, the recovery."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluicegate.demo.first_minute.judging import Result, judge
from sluicegate.demo.first_minute.record import Latency, Record, percentile
from sluicegate.demo.first_minute.traffic import NOISY_SIZE
from sluicegate.demo.first_minute.typed_command import Asked, ask
from sluicegate.demo.scene import SharedBroker
from sluicegate.host.children import Child, ChildError

WORKERS = 40
"""Messages that the noisy producer keeps under way."""
_CALIBRATION_S = 3.0
_SHARES = (0.2, 0.35, 0.45)
"""Of the length of a play: before, during and after the noise."""
_WAITS = (0.0, 4.0, 4.0)
"""The same parts are at least so many times as long as a message waits in the queue."""
_LEAST_WAIT_S, _MOST_WAIT_S = 1.5, 8.0
_SLOWER = 8.0
"""A message waits so many times longer behind the noise than what this machine takes without it."""
_LIMITED_TO = 0.1
"""The limit, as a share of what the noisy producer gets through."""
_PATIENCE_S = 120.0
_SETTLING = 2.5
"""After so many waits what waited before the limit has been written, and acknowledged."""
_ENOUGH = 40
"""Messages of the neighbour that each part waits for, and that calibration takes."""
_ATTEMPTS = 20
_LOOK_S = 0.25
OVER = "over"
"""The last stage."""
REASON = "its neighbour waits"


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A play that this machine can show."""

    wait_s: float
    """How long a message waits behind the noise."""
    bytes_per_second: float
    """The speed of the slow disk for that."""
    limit: int
    """What the command allows the noisy producer, in messages per second."""

    @classmethod
    def by(cls, latencies: list[float]) -> "Calibrated":
        """Choose it by what the neighbour measured alone, in seconds."""
        alone = percentile(sorted(latencies), 95)
        wait_s = min(_MOST_WAIT_S, max(_LEAST_WAIT_S, _SLOWER * alone))
        per_second = WORKERS / wait_s
        return cls(wait_s, per_second * NOISY_SIZE, max(1, round(per_second * _LIMITED_TO)))


@dataclass(slots=True)
class Play:
    """One system's play."""

    system: str
    shared: SharedBroker
    address: str
    """The gateway's, host:port."""
    broker: Child
    directory: Path
    """That of the policy file."""
    seconds: float
    """How long it takes, on a machine that is fast enough."""
    changed: Callable[["Play"], None] = lambda play: None
    """Called a few times a second, and when something happens."""
    stage: str = "starting the clients"
    record: Record = field(default_factory=lambda: Record(time.monotonic()))
    calibrated: Calibrated | None = None
    set_limit: Asked | None = None
    explained: Asked | None = None
    has_ended: bool = False

    @property
    def now(self) -> float:
        """Seconds since the start of the record."""
        return time.monotonic() - self.record.began

    async def run(self) -> Result:
        """Play it.

        :raises ChildError: if a process ends, or a command fails.
        """
        async with AsyncExitStack() as stack:
            neighbour, noisy = await self._start(stack)
            leading = asyncio.ensure_future(self._lead(neighbour, noisy))
            hearing = [
                asyncio.ensure_future(self._hear_neighbour(neighbour)),
                asyncio.ensure_future(self._hear_noisy(noisy)),
            ]
            tasks: list[asyncio.Future[Any]] = [leading, *hearing]
            try:
                # They hear for ever, unless a client fails.
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in hearing:
                    if task.done():
                        task.result()
                return await leading
            finally:
                # A cancellation that comes with a line is lost (`asyncio.wait_for` of Python 3.11).
                self.has_ended = True
                for each in tasks:
                    each.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _start(self, stack: AsyncExitStack) -> tuple[Child, Child]:
        shared = self.shared
        tasks: dict[str, dict[str, Any]] = {
            "neighbour": {"topic": shared.neighbour},
            "noisy": {"topic": shared.noisy, "producers": shared.producers, "workers": WORKERS},
        }
        children = []
        for role, task in tasks.items():
            log = self.directory / f"{role}-{self.system}.log"
            module = "sluicegate.demo.first_minute.traffic"
            child = await stack.enter_async_context(
                Child(f"{self.system}'s {role} client", module, [self.system], log)
            )
            await child.tell({"role": role, "address": self.address, **task})
            children.append(child)
        for child in children:
            await child.hear("ready", _PATIENCE_S)
        return children[0], children[1]

    async def _calibrate(self, neighbour: Child) -> Calibrated:
        self._enter("measuring how fast this machine is")
        await neighbour.tell({})
        await self._last(_CALIBRATION_S, 0.0)
        calibrated = Calibrated.by([latency for _, latency in self.record.neighbour])
        await self.broker.tell({"bytes_per_second": calibrated.bytes_per_second})
        await self.broker.hear("slowed", _PATIENCE_S)
        self.record = Record(time.monotonic())
        return calibrated

    async def _lead(self, neighbour: Child, noisy: Child) -> Result:
        calibrated = self.calibrated = await self._calibrate(neighbour)
        record = self.record
        before, during, after = (
            max(share * self.seconds, waits * calibrated.wait_s)
            for share, waits in zip(_SHARES, _WAITS, strict=True)
        )
        self._enter("the neighbour alone")
        record.calm_at = await self._calm(before)
        record.noisy_at = self.now
        self._enter("the noisy producer publishes all it can")
        await noisy.tell({"pause_s": calibrated.wait_s})
        await self._last(during, record.noisy_at + calibrated.wait_s)
        self.set_limit = await self._ask(*_limiting(self.shared.noisy, calibrated.limit))
        record.limited_at = self.now
        self._enter("the noisy producer is limited")
        await self._last(_SETTLING * calibrated.wait_s, record.limited_at)
        record.settled_at = await self._calm(
            max(after - _SETTLING * calibrated.wait_s, 2 * calibrated.wait_s)
        )
        record.ended_at = self.now
        self.explained = await self._why()
        self._enter(OVER)
        return judge(record, calibrated.limit, calibrated.wait_s)

    async def _calm(self, seconds: float) -> float:
        """Let time pass, and more if something else on this machine held up the neighbour.

        :return: since when nothing did, or the last attempt began.
        """
        assert self.calibrated is not None  # noqa: S101 - it is by now
        for _ in range(_ATTEMPTS):
            since = self.now
            await self._last(seconds, since)
            if self.record.latency(since, self.now).p99 <= self.calibrated.wait_s / 2:
                break
        return since

    async def _why(self) -> Asked:
        """Ask why: by the decision's id, where the client's error has it, else by the client or the topic."""
        _, marked, decision = self.record.refusal.partition("[sluicegate ")
        if marked:
            return await self._ask("explain", decision.partition("]")[0])
        asked = await ask(("explain", "--client", self.record.refused_client), self.directory)
        if asked.code == 0:
            return asked
        # Clients of Pulsar have no id of their own.
        return await self._ask("explain", self.shared.noisy, "--broker", self.system)

    async def _ask(self, *words: str) -> Asked:
        asked = await ask(words, self.directory)
        if asked.code:
            raise ChildError(f"$ {asked.line} ended with {asked.code}: {asked.text}")
        return asked

    async def _last(self, seconds: float, since: float) -> None:
        """Let time pass, and as many messages of the neighbour as a figure needs."""
        until = self.now + seconds
        latest = until + _PATIENCE_S
        while self.now < until or (self._count(since) < _ENOUGH and self.now < latest):
            await asyncio.sleep(_LOOK_S)
            self.changed(self)

    def _count(self, since: float) -> int:
        return sum(at >= since for at, _ in self.record.neighbour)

    def latency(self) -> Latency:
        """The neighbour's, of the last seconds."""
        return self.record.latency(self.now - 3.0, self.now)

    def _enter(self, stage: str) -> None:
        self.stage = stage
        self.changed(self)

    async def _hear_neighbour(self, child: Child) -> None:
        while not self.has_ended:
            report: dict[str, Any] = await child.hear("latencies", _PATIENCE_S, _raise)
            self.record.take_neighbour(report["latencies"], report["errors"])

    async def _hear_noisy(self, child: Child) -> None:
        while not self.has_ended:
            report: dict[str, Any] = await child.hear("acknowledged", 10 * _PATIENCE_S, _raise)
            self.record.take_noisy(
                report["acknowledged"], report["refused"], report["error"], report["client"]
            )


def _limiting(topic: str, limit: int) -> tuple[str, ...]:
    """The command that limits a topic, behind `sluicegate`."""
    policies = f"max_publish_rate={limit}/s", "on_limit.max_publish_rate=reject"
    return ("policies", "set", "topic", topic, *policies, "--reason", REASON)


def _raise(message: Any) -> None:
    raise ChildError(f"a client failed: {message['failed']}")
