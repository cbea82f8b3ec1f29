"""The scene of adaptive publish throttling: a backlog builds up while no consumer reads, and is read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from sluicegate.demo.clients import DemoConsumer
from sluicegate.demo.course import chart
from sluicegate.demo.kinds.changing_rates import Course, NeverCameError, Segment, publishing
from sluicegate.demo.kinds.judging import worst
from sluicegate.demo.scene import Observation, OwnGateway, Scene, Seen, Stage, Verdict
from sluicegate.demo.topic_log import Row, TopicLog

_POLICY = "adaptive_publish_throttling"
_METRIC = "pulsar_broker_topic_adaptive_throttle_"
_ACTIVATIONS = "pulsar_broker_adaptive_throttle_activation_count_total"
_REPORTED_S = 1.2
"""In this time a worker reports its metrics again."""
_SIZE = 2_400
_QUOTA = 900_000
"""Bytes of backlog at which publishing is at its floor."""
_AT_ONCE = 20
_PACE_S = 0.1
"""Each of those publishes ten messages a second: a rate that a slow machine has too."""
_NO_RATE_OF_MESSAGES = 10 * _AT_ONCE / _PACE_S
"""A natural rate from which on it must be one of bytes."""
_LEAST = 0.1
"""What the policy leaves of a rate unless told otherwise."""
_SUBSCRIPTION = "lazy"
_HOLD_S = 2.0
_BURST_S = 1.0
_FREE_AFTER_S = 1.5
"""Longer than messages are apart at the floor."""
_TITLE = "A backlog builds up: messages/s through Pulsar's gateway. Bars: admitted; line: target"


def _own(directory: Path) -> OwnGateway:
    return OwnGateway(
        policies={
            f"{_POLICY}_enabled": True,
            f"{_POLICY}_interval_ms": 200,
            f"{_POLICY}_per_topic_metrics_enabled": True,
        },
        entry={"pressure": {"memory": [], "backlog": {"interval": "100ms", "quota": _QUOTA}}},
    )


@asynccontextmanager
async def _read(consumer: DemoConsumer) -> AsyncIterator[None]:
    """Read and acknowledge all that comes, within the block."""

    async def read() -> None:
        while True:
            if message := await consumer.receive(0.1):
                await consumer.acknowledge(message)

    reading = asyncio.ensure_future(read())
    try:
        yield
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading


class _Pressing:
    """The scene while it is played."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._course = Course(stage)

    async def _metric(self, name: str) -> float:
        return await self._stage.metric(_METRIC + name) or 0.0

    async def _is_throttled(self) -> bool:
        return await self._metric("active") > 0

    async def _is_free(self) -> bool:
        return not await self._is_throttled()

    async def _is_at_floor(self) -> bool:
        effective, natural = (
            await self._metric("effective_publish_rate"),
            await self._metric("natural_publish_rate"),
        )
        return await self._is_throttled() and effective <= natural * _LEAST + 1

    async def play(self) -> Seen:
        """Let a backlog build up until the rate is at its floor, then read it."""
        topic = self._stage.topic
        async with self._stage.clients() as client:
            # Without a subscription the messages would be no backlog.
            await (await client.consumer(topic, _SUBSCRIPTION, "lazy")).close()
            producer = await client.producer(topic, "pressing")
            try:
                async with publishing(producer, _SIZE, _AT_ONCE, _PACE_S) as errors:
                    await self._course.until(self._is_at_floor, "the lowest rate")
                    natural = await self._metric("natural_publish_rate")
                    await self._course.hold("floor", _HOLD_S, self._is_at_floor)
                    async with _read(await client.consumer(topic, _SUBSCRIPTION, "busy")):
                        await self._course.until(self._is_free, "the release")
                        await self._release()
            except NeverCameError as error:
                return self._course.seen(False, str(error))
        refused = f"{len(errors)} refused" if errors else "none was refused"
        return self._course.seen(not errors, f"of {natural:.0f}/s without pressure; {refused}")

    async def _release(self) -> None:
        """Go on without a throttle; on a busy machine the backlog may grow again for a moment."""
        before = await self._stage.metric(_ACTIVATIONS)

        async def stayed() -> bool:
            await asyncio.sleep(_REPORTED_S)
            return await self._is_free() and await self._stage.metric(_ACTIVATIONS) == before

        await self._course.hold("released", _HOLD_S, stayed)


async def _play(stage: Stage) -> Seen:
    return await _Pressing(stage).play()


def _in_messages(row: Row) -> Row:
    """A row with its limit in messages/s: it may be in bytes/s, and all messages have one size."""
    if not row["current"] or row["current"] < _NO_RATE_OF_MESSAGES:
        return row
    return {**row, "current": row["current"] / _SIZE, "limit": row["limit"] / _SIZE}


def _judge(seen: Seen, log: TopicLog) -> Observation:
    free = _AT_ONCE / _PACE_S
    log = TopicLog(map(_in_messages, log.rows))
    drawn = chart(_TITLE, log, seen.facts["began"], seen.facts["ended"], free, _state_of, _FREE_AFTER_S)
    if not seen.met:
        return Observation(Verdict.DIFFERENT, seen.text, seen.error, drawn)
    floor, released = (Segment(log, segment, _BURST_S, _AT_ONCE) for segment in seen.facts["segments"])
    judged = [floor.judge(), _free(released)]
    text = "; ".join([*(each.text for each in judged), seen.text])
    return Observation(worst(judged).verdict, text, chart=drawn)


def _free(segment: Segment) -> Observation:
    held = len(segment.holds(_POLICY))
    text = f"released: {len(segment.admitted)} messages passed and {held} were held"
    if held and not segment.report["held"]:
        return Observation(Verdict.UNSATURATED, f"{text}, as the backlog had grown again")
    return Observation(Verdict.DIFFERENT if held else Verdict.RIGHT, text)


def _state_of(row: Row) -> str:
    return "floor" if row["factor"] <= _LEAST + 0.01 else "ramp"


SCENES = (
    Scene(
        "adaptive-throttling",
        "persistent://public/default/pressed",
        {},
        "publishing is slowed down to a tenth as a backlog nears its quota, and released when it is read; "
        "no message is refused",
        _play,
        _judge,
        _own,
    ),
)
