"""The scene of storage quotas: a volume fills up by a real file, and is emptied again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from sluicegate.demo.course import Course, NeverCameError
from sluicegate.demo.scene import Observation, OwnGate, Scene, Stage
from sluicegate.demo.volume import Ballast, FreeLimits
from sluicegate_kafka.demo.clients import PARTITION, producer

_QUOTA = 300
_SIZE = 500
_IN_FLIGHT = 30
_FACTORS = (0.6, 0.3)
"""Places on the ramp to stop at; what other programs write moves them a little."""
_OFF = 0.15
_TOLERANCE = 0.2
_FIRST_S = 1.0
_SETTLE_S = 0.4
"""Longer than answers of what was admitted before are under way."""
_MEASURE_S = 1.2
_STATES = {0.0: "open", 1.0: "throttle", 2.0: "pause"}


def _own(directory: Path) -> OwnGate:
    limits = FreeLimits.below(directory)
    return OwnGate(
        policies={
            "publish_quota": f"{_QUOTA}/s",
            "burst_seconds": 0.1,
            "storage_soft_min_free_bytes": limits.soft,
            "storage_hard_min_free_bytes": limits.hard,
        },
        entry={"storage": {"source": "path", "paths": [str(directory)], "interval": "100ms"}},
    )


@asynccontextmanager
async def _publishing(stage: Stage, course: Course) -> AsyncIterator[None]:
    """A client that publishes as fast as the gate lets it, within the block."""

    async def publish(client: Any) -> None:
        while True:
            answer = await client.send(stage.topic, bytes(_SIZE), partition=PARTITION)
            await answer
            course.acknowledged += 1

    async with producer(stage, "filling", max_batch_size=_SIZE) as client:
        senders = [asyncio.ensure_future(publish(client)) for _ in range(_IN_FLIGHT)]
        try:
            yield
        finally:
            for sender in senders:
                sender.cancel()
            for sender in senders:
                with suppress(asyncio.CancelledError):
                    await sender


class _Filling:
    """The scene while it is played."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._volume = Ballast(stage.directory)
        self._limits = FreeLimits(
            stage.policies["storage_soft_min_free_bytes"], stage.policies["storage_hard_min_free_bytes"]
        )
        self._told: list[str] = []
        self._met = True
        self.course = Course(self._look)

    def _look(self) -> tuple[float, str]:
        return _QUOTA * self._factor, _STATES.get(self._stage.metric("sluicegate_storage_state") or 0.0, "?")

    @property
    def _factor(self) -> float:
        found = self._stage.metric("sluicegate_storage_throttle_factor")
        return 1.0 if found is None else found

    def _is(self, state: str) -> bool:
        return self._look()[1] == state

    def _tell(self, text: str, *, met: bool) -> None:
        self._told.append(text)
        self._met = self._met and met

    async def play(self) -> Observation:
        """Go down the ramp, stop, and come back."""
        try:
            async with producer(self._stage, "late") as late, _publishing(self._stage, self.course):
                await self.course.settled(_SETTLE_S)
                async with self.course.watched():
                    await self._open()
                    for factor in _FACTORS:
                        await self._ramp(factor)
                    held = await self._pause(late)
                    await self._recover(held)
        except NeverCameError as error:
            self._tell(str(error), met=False)
        finally:
            self._volume.remove()
        delays = await self._stage.decisions("delay")
        factors = [row["factor"] for row in delays if row["policy"] == "storage_quota"]
        if not factors or min(factors) > 0:
            self._tell("no row delay by storage_quota with factor 0 in the decision log", met=False)
        title = "A volume fills up: messages/s through Kafka's gate. Bars: acknowledged; line: quota x factor"
        return Observation(self._met, "; ".join(self._told), chart=self.course.chart(title))

    async def _open(self) -> None:
        found = await self.course.over(_FIRST_S)
        met = found.near(_TOLERANCE) and self._is("open")
        self._tell(f"{found.admitted:.0f}/s with room on the volume", met=met)

    async def _ramp(self, factor: float) -> None:
        def is_there() -> bool:
            return abs(self._factor - factor) < _OFF

        await asyncio.to_thread(self._volume.leave, self._limits.at(factor))
        await self.course.until(is_there, f"a factor near {factor}")
        await asyncio.sleep(_SETTLE_S)
        found = await self.course.over(_MEASURE_S)
        text = f"{found.admitted:.0f}/s at a factor of {found.allowed / _QUOTA:.2f}"
        self._tell(text, met=found.near(_TOLERANCE) and 0 < found.allowed < _QUOTA)

    async def _pause(self, late: Any) -> "asyncio.Future[Any]":
        """Fill it up to the hard limit and beyond; gives the answer to a message that comes only then."""
        await asyncio.to_thread(self._volume.leave, self._limits.at(-0.2))
        took = await self.course.until(lambda: self._is("pause"), "the pause")
        await asyncio.sleep(_SETTLE_S)
        held: asyncio.Future[Any] = await late.send(self._stage.topic, bytes(_SIZE), partition=PARTITION)
        found = await self.course.over(_MEASURE_S)
        text = f"{found.admitted:.0f}/s at the hard limit, which was seen after {took * 1000:.0f} ms"
        self._tell(text, met=found.admitted == 0 and not held.done())
        return held

    async def _recover(self, held: "asyncio.Future[Any]") -> None:
        before = self.course.acknowledged
        self._volume.remove()
        took = await self.course.until(lambda: self.course.acknowledged > before, "a message after the pause")
        await self.course.until(lambda: self._is("open"), "the end of the throttling")
        await self.course.until(held.done, "the answer to the message that was held")
        await asyncio.sleep(_SETTLE_S)
        found = await self.course.over(_FIRST_S)
        text = f"{found.admitted:.0f}/s with the file removed, the first after {took * 1000:.0f} ms"
        self._tell(text, met=found.near(_TOLERANCE) and held.exception() is None)


async def _play(stage: Stage) -> Observation:
    return await _Filling(stage).play()


SCENES = (
    Scene(
        "storage-quota",
        "demo.filling",
        {},
        f"publishing keeps to {_QUOTA} messages/s x factor as a volume fills, pauses at the hard limit, and "
        "goes on when there is room again; none is refused",
        _play,
        _own,
    ),
)
