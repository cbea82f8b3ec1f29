"""The scene of adaptive publish throttling: a backlog builds up while nobody reads, and is read."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sluicegate.demo.course import Course, NeverCameError
from sluicegate.demo.scene import Observation, OwnGate, Scene, Stage
from sluicegate_pulsar.demo.clients import blocking, client

_POLICY = "adaptive_publish_throttling"
_METRIC = "pulsar_broker_topic_adaptive_throttle_"
_RATE = 250
"""What the client would like to publish, messages per second."""
_SIZE = 2_400
_QUOTA = 1_800_000
"""Bytes: three seconds of what the client would like to publish."""
_LEAST = 0.1
"""What the policy leaves of a rate unless told otherwise."""
_SUBSCRIPTION = "lazy"
_PENDING = 20
_SETTLE_S = 0.6
_MEASURE_S = 1.5
_AGAIN_S = 1.0
_TOLERANCE = 0.4
"""At the floor there are some 25 messages per second, and the consumer takes time from the client as well."""
_BUILD_S = 12.0


def _own(directory: Path) -> OwnGate:
    return OwnGate(
        policies={
            f"{_POLICY}_enabled": True,
            f"{_POLICY}_interval_ms": 200,
            f"{_POLICY}_per_topic_metrics_enabled": True,
        },
        entry={"pressure": {"memory": [], "backlog": {"interval": "100ms", "quota": _QUOTA}}},
    )


def _publish(producer: Any, course: Course, ending: threading.Event) -> None:
    """Publish at the client's own pace, or as slowly as the gate lets it."""

    def acknowledged(result: Any, _: Any) -> None:
        if str(result).endswith("Ok"):
            course.acknowledged += 1

    while not ending.is_set():
        began = time.monotonic()
        producer.send_async(bytes(_SIZE), acknowledged)
        # From the end of the last one on: what the gate held back is not made up for.
        time.sleep(max(0.0, 1 / _RATE - (time.monotonic() - began)))


def _read(consumer: Any, ending: threading.Event) -> None:
    import pulsar

    while not ending.is_set():
        try:
            consumer.acknowledge(consumer.receive(timeout_millis=100))
        except pulsar.Timeout:
            continue


@asynccontextmanager
async def _thread(work: Any, *arguments: Any) -> AsyncIterator[None]:
    """Have something done in a thread, until the block ends.

    :param work: is called with the arguments and an event that tells it to end.
    """
    ending = threading.Event()
    working = asyncio.ensure_future(blocking(work, *arguments, ending))
    try:
        yield
    finally:
        ending.set()
        await working


class _Pressing:
    """The scene while it is played."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._told: list[str] = []
        self._met = True
        self.course = Course(self._look)

    def _metric(self, name: str) -> float:
        return self._stage.metric(_METRIC + name) or 0.0

    def _look(self) -> tuple[float, str]:
        if not self._is_throttled():
            return self._metric("natural_publish_rate") or _RATE, "free"
        return self._metric("effective_publish_rate"), "floor" if self._is_at_floor() else "ramp"

    def _is_throttled(self) -> bool:
        return self._metric("active") > 0

    def _is_at_floor(self) -> bool:
        return self._metric("effective_publish_rate") <= self._metric("natural_publish_rate") * _LEAST + 1

    def _tell(self, text: str, *, met: bool) -> None:
        self._told.append(text)
        self._met = self._met and met

    async def play(self) -> Observation:
        """Let a backlog build up until the rate is at its floor, then read it."""
        course = self.course
        async with client(self._stage) as of:
            # Without it the messages would be nobody's backlog.
            await blocking((await blocking(of.subscribe, self._stage.topic, _SUBSCRIPTION)).close)
            producer = await blocking(
                of.create_producer,
                self._stage.topic,
                max_pending_messages=_PENDING,
                block_if_queue_full=True,
            )
            try:
                async with _thread(_publish, producer, course):
                    await course.settled(_SETTLE_S)
                    async with course.watched():
                        await self._build_up()
                        await self._drain(of)
            except NeverCameError as error:
                self._tell(str(error), met=False)
        delays = await self._stage.decisions("delay")
        if not any(row["policy"] == _POLICY for row in delays):
            self._tell(f"no row delay by {_POLICY} in the decision log", met=False)
        title = "A backlog builds up: messages/s through Pulsar's gate. Bars: acknowledged; line: target"
        return Observation(self._met, "; ".join(self._told), chart=course.chart(title))

    async def _build_up(self) -> None:
        course = self.course
        await course.until(self._is_throttled, "the throttling", _BUILD_S)
        natural = self._metric("natural_publish_rate")
        took = await course.until(
            lambda: self._is_throttled() and self._is_at_floor(), "the lowest rate", _BUILD_S
        )
        await asyncio.sleep(_SETTLE_S)
        found = await course.over(_MEASURE_S)
        text = (
            f"of {natural:.0f}/s without pressure {found.admitted:.0f}/s are left at the floor of "
            f"{found.allowed:.0f}/s, reached {took:.1f} s after the throttling began"
        )
        self._tell(text, met=natural > 0 and found.near(_TOLERANCE))

    async def _drain(self, of: Any) -> None:
        course, natural = self.course, self._metric("natural_publish_rate")
        consumer = await blocking(of.subscribe, self._stage.topic, _SUBSCRIPTION)
        async with _thread(_read, consumer):
            took = await course.until(lambda: not self._is_throttled(), "the release")
            await asyncio.sleep(_SETTLE_S)
            found = await course.at_least((1 - _TOLERANCE) * natural, _AGAIN_S)
            still = self._is_throttled()
        text = f"{found.admitted:.0f}/s again, released {took:.1f} s after a consumer began to read"
        self._tell(text, met=not still and found.admitted >= (1 - _TOLERANCE) * natural)


async def _play(stage: Stage) -> Observation:
    return await _Pressing(stage).play()


SCENES = (
    Scene(
        "adaptive-throttling",
        "persistent://public/default/pressed",
        {},
        "publishing is slowed down to a tenth as a backlog nears its quota, and released when it is read; "
        "no message is refused",
        _play,
        _own,
    ),
)
