"""The scene of storage quotas: a volume fills up by a real file, and is emptied again."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from sluicegate.demo.clients import refusal
from sluicegate.demo.course import chart
from sluicegate.demo.kinds.changing_rates import Course, NeverCameError, Segment, publishing
from sluicegate.demo.kinds.judging import worst
from sluicegate.demo.scene import GATEWAY_LOG, Observation, OwnGateway, Scene, Seen, Stage, Verdict
from sluicegate.demo.topic_log import Row, TopicLog
from sluicegate.demo.volume import Ballast, FreeLimits, free_bytes
from sluicegate_kafka.demo.clients import KafkaClient, KafkaProducer

_QUOTA = 100
_BURST_S = 0.1
_SIZE = 500
_AT_ONCE = 10
_FACTORS = (0.6, 0.3)
"""Places on the ramp to stop at; what other programs write moves them a little."""
_OFF = 0.15
_HOLD_S = 1.5
_BEYOND = -1.0
"""The place to pause at: beyond the hard limit, as other programs may delete something meanwhile."""
_PAUSED = 2.0
_PAUSE_ENDS = "storage quota PAUSE -> "
_TITLE = "A volume fills up: messages/s through Kafka's gateway. Bars: admitted; line: quota x factor"


def _own(directory: Path) -> OwnGateway:
    limits = FreeLimits.below(directory)
    return OwnGateway(
        policies={
            "publish_quota": f"{_QUOTA}/s",
            "burst_seconds": _BURST_S,
            "storage_soft_min_free_bytes": limits.soft,
            "storage_hard_min_free_bytes": limits.hard,
        },
        entry={"storage": {"source": "path", "paths": [str(directory)], "interval": "100ms"}},
    )


class _Filling:
    """The scene while it is played."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._volume = Ballast(stage.directory)
        self._limits = FreeLimits(
            *(int(stage.policies[f"storage_{kind}_min_free_bytes"]) for kind in ("soft", "hard"))
        )
        self._course = Course(stage)

    async def play(self) -> Seen:
        """Go down the ramp, stop, and come back."""
        try:
            async with self._stage.clients() as client:
                assert isinstance(client, KafkaClient)  # noqa: S101 - Kafka's scenes have Kafka's clients
                producer = await client.producer(self._stage.topic, "filling", max_batch_size=_SIZE)
                late = await client.producer(self._stage.topic, "late", max_batch_size=_SIZE)
                async with publishing(producer, _SIZE, _AT_ONCE) as errors:
                    await self._course.hold("room", _HOLD_S, self._is_open)
                    for factor in _FACTORS:
                        await self._ramp(factor)
                    answer = await self._pause(late)
                    await self._recover(answer)
        except NeverCameError as error:
            seen = self._course.seen(False, str(error))
            return replace(seen, facts={**seen.facts, "others": self._written_by_others()})
        finally:
            self._volume.remove()
        return self._course.seen(not errors, f"{len(errors)} refused" if errors else "none was refused")

    def _written_by_others(self) -> int:
        """Bytes by which the volume would be below the soft limit even without the ballast."""
        return self._limits.soft - free_bytes(self._stage.directory) - self._volume.size

    async def _fill(self, factor: float, is_there: Callable[[], Awaitable[bool]], what: str) -> None:
        """Fill the volume until the gateway has noticed; what others write or delete is made up for."""

        async def comes() -> bool:
            await asyncio.to_thread(self._volume.leave, self._limits.at(factor))
            return await is_there()

        await self._course.until(comes, what)

    async def _ramp(self, factor: float) -> None:
        async def is_there() -> bool:
            value = await self._stage.metric("sluicegate_storage_throttle_factor")
            return value is not None and abs(value - factor) < _OFF

        await self._fill(factor, is_there, f"a factor near {factor}")
        await self._course.hold("ramp", _HOLD_S, is_there)

    async def _pause(self, late: KafkaProducer) -> "asyncio.Future[str]":
        """Fill it up to the hard limit and beyond; gives the answer to a message that comes only then."""
        ended = self._pauses_ended()
        await self._fill(_BEYOND, self._is_paused, "the pause")
        answer = asyncio.ensure_future(refusal(late.publish(_SIZE)))

        async def stayed() -> bool:
            return await self._is_paused() and self._pauses_ended() == ended

        await self._course.hold("pause", _HOLD_S, stayed)
        return answer

    async def _recover(self, answer: "asyncio.Future[str]") -> None:
        self._volume.remove()
        await self._course.until(self._is_open, "the end of the throttling")
        async with asyncio.timeout(self._stage.patience_s):
            if error := await answer:
                raise NeverCameError(f"the message that was held was refused ({error}), so its answer")
        await self._course.hold("room again", _HOLD_S, self._is_open)

    def _pauses_ended(self) -> int:
        """How often a pause has ended, if only for a moment, which metrics of each second miss."""
        return (self._stage.directory / GATEWAY_LOG).read_text(errors="replace").count(_PAUSE_ENDS)

    async def _state(self) -> float | None:
        return await self._stage.metric("sluicegate_storage_state")

    async def _is_open(self) -> bool:
        return await self._state() == 0.0

    async def _is_paused(self) -> bool:
        return await self._state() == _PAUSED


async def _play(stage: Stage) -> Seen:
    return await _Filling(stage).play()


def _judge(seen: Seen, log: TopicLog) -> Observation:
    drawn = chart(_TITLE, log, seen.facts["began"], seen.facts["ended"], _QUOTA, _state_of)
    if (others := seen.facts.get("others", 0)) > 0:
        text = f"{seen.text}, as other programs filled this volume by {others >> 20} MiB too much meanwhile"
        return Observation(Verdict.UNSATURATED, text, chart=drawn)
    if not seen.met:
        return Observation(Verdict.DIFFERENT, seen.text, seen.error, drawn)
    segments = [Segment(log, each, _BURST_S, _AT_ONCE) for each in seen.facts["segments"]]
    judged = [_paused(each) if each.report["name"] == "pause" else each.judge() for each in segments]
    text = "; ".join([*(each.text for each in judged), seen.text])
    return Observation(worst(judged).verdict, text, chart=drawn)


def _paused(segment: Segment) -> Observation:
    count = sum(each.amount for each in segment.admitted)
    text = f"pause: {count:.0f} messages passed"
    if count and not segment.report["held"]:
        return Observation(Verdict.UNSATURATED, f"{text}, but the volume had room again meanwhile")
    if all(row["factor"] > 0 for row in segment.log.of("publish", "delay", "storage_quota")):
        text += ", no row delay by storage_quota with factor 0 in the decision log"
        return Observation(Verdict.DIFFERENT, text)
    return Observation(Verdict.DIFFERENT if count else Verdict.RIGHT, text)


def _state_of(row: Row) -> str:
    if row["policy"] != "storage_quota":
        return "open"
    return "throttle" if row["factor"] > 0 else "pause"


SCENES = (
    Scene(
        "storage-quota",
        "demo.filling",
        {},
        f"publishing keeps to {_QUOTA} messages/s x factor as a volume fills, pauses at the hard limit, and "
        "goes on when there is room again; none is refused",
        _play,
        _judge,
        _own,
    ),
)
