"""The scene of storage quotas: a volume that is half way between its limits leaves half of a quota.

Nothing is written to the volume: the limits are set around what is free on it.
"""

from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from sluicegate.demo.clients import refusal
from sluicegate.demo.kinds.changing_rates import Course, Segment, publishing
from sluicegate.demo.scene import Observation, OwnGateway, Scene, Seen, Stage, Verdict
from sluicegate.demo.topic_log import TopicLog
from sluicegate.demo.volume import free_bytes

_QUOTA = 100
_BURST_S = 0.5
_AT_ONCE = 2
"""Messages that each producer has under way."""
_HOLD_S = 4.0
_SIZE = 500


def _own(directory: Path) -> OwnGateway:
    free = free_bytes(directory)
    limits = {
        "publish_quota": f"{_QUOTA}/s",
        "burst_seconds": _BURST_S,
        # Far from each other, so that what other programs write or delete does not move the factor by much.
        "storage_soft_min_free_bytes": free + free // 2,
        "storage_hard_min_free_bytes": free // 2,
    }
    storage = {"source": "path", "paths": [str(directory)], "interval": "1s"}
    return OwnGateway(policies=limits, entry={"storage": storage})


def storage_quota(topic: str, producers: int) -> Scene:
    """A quota of which a volume that fills up leaves a part."""
    return Scene(
        "storage-quota",
        topic,
        {},
        f"what the volume leaves of {_QUOTA} messages/s passes; none is refused",
        partial(_publish, producers=producers),
        partial(_judge, producers=producers),
        own=_own,
        weight=4,
    )


async def _publish(stage: Stage, producers: int) -> Seen:
    async def always() -> bool:
        return True

    course = Course(stage)
    errors: list[list[str]] = []
    async with stage.clients() as client, AsyncExitStack() as stack:
        for number in range(producers):
            producer = await client.producer(stage.topic, f"producer-{number}")
            errors.append([error] if (error := await refusal(producer.publish(_SIZE))) else [])
            errors.append(await stack.enter_async_context(publishing(producer, _SIZE, _AT_ONCE)))
        await course.hold("slowed down", _HOLD_S, always)
    refused = [error for each in errors for error in each]
    return course.seen(not refused, f"{len(refused)} refused", next(iter(refused), ""))


def _judge(seen: Seen, log: TopicLog, producers: int) -> Observation:
    if not seen.met:
        return Observation(Verdict.DIFFERENT, seen.text, seen.error)
    (found,) = seen.facts["segments"]
    factors = {row["factor"] for row in log.of("publish", "delay", "storage_quota")}
    observation = Segment(log, found, _BURST_S, _AT_ONCE * producers).judge()
    if observation.verdict is Verdict.RIGHT and not any(0 < factor < 1 for factor in factors):
        return Observation(Verdict.DIFFERENT, f"{observation.text}; factors {sorted(factors)} in the log")
    return observation
