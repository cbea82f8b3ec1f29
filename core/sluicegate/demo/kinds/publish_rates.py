"""Scenes for publish rates: clients that publish more than a limit allows.

The rates are low, so that slow machines reach them too; the bounds are exact at any rate.
"""

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from time import monotonic

from sluicegate.demo.clients import DemoProducer, refusal
from sluicegate.demo.kinds.judging import IN_FLIGHT, by_law, judged
from sluicegate.demo.law import Answered, Limit
from sluicegate.demo.scene import Observation, Scene, Seen, Stage
from sluicegate.demo.topic_log import TopicLog

_RATE = 50
_BYTES = 64 * 1024
_BURST_S = 0.5
_PLAY_S = 4.0
_SIZE = 1_000
_HASTE = 40
"""Messages that an impatient client sends without a pause."""
_HASTE_RATE = 5
_WEIGHT = 4


def publish_rate(
    topic: str, *, policy: str = "max_publish_rate", producers: int = 1, **settings: object
) -> Scene:
    """A limit on published messages.

    :param policy: the policy with the limit.
    :param producers: number of concurrent producers.
    :param settings: more settings of the topic.
    """
    promise = (
        f"in every window at most {_RATE} messages/s and {_RATE * _BURST_S:.0f} at once; none is refused"
    )
    limits = {policy: f"{_RATE}/s", **settings}
    return _delaying("publish-rate", topic, limits, promise, policy, producers)


def publish_rate_bytes(
    topic: str, *, policy: str = "max_publish_rate_bytes", producers: int = 1, **settings: object
) -> Scene:
    """A limit on published bytes; parameters as for `publish_rate`."""
    promise = f"in every window at most {_BYTES // 1024} KiB/s and {_BYTES * _BURST_S / 1024:.0f} KiB at once"
    limits = {policy: f"{_BYTES // 1024}KiB/s", **settings}
    return _delaying("publish-rate-bytes", topic, limits, promise, policy, producers)


def _delaying(
    name: str, topic: str, limits: Mapping[str, object], promise: str, policy: str, producers: int
) -> Scene:
    in_bytes = name.endswith("-bytes")
    judge = partial(
        _judge_publishing,
        policy=policy,
        rate=_BYTES if in_bytes else _RATE,
        unit="bytes" if in_bytes else "messages",
    )
    play = partial(_publish, producers=producers)
    return Scene(name, topic, {"burst_seconds": _BURST_S, **limits}, promise, play, judge, weight=_WEIGHT)


async def _publish(stage: Stage, producers: int) -> Seen:
    answered: list[tuple[float, float]] = []
    errors: list[str] = []
    async with stage.clients() as client:
        made = [await client.producer(stage.topic, f"saturating-{n}") for n in range(1, producers + 1)]
        until = monotonic() + _PLAY_S

        async def send(producer: DemoProducer) -> None:
            while monotonic() < until:
                sent = time.time_ns() / 1e9
                if error := await refusal(producer.publish(_SIZE)):
                    errors.append(error)
                else:
                    answered.append((sent, time.time_ns() / 1e9))

        await asyncio.gather(*(send(made[n % producers]) for n in range(IN_FLIGHT)))
    text = f"{len(answered)} messages acknowledged in {_PLAY_S:.0f} s, {len(errors)} refused"
    return Seen(not errors and bool(answered), text, next(iter(errors), ""), {"answered": answered})


def _judge_publishing(seen: Seen, log: TopicLog, policy: str, rate: float, unit: str) -> Observation:
    limit = Limit(rate, rate * _BURST_S)
    admitted = log.admitted("publish", unit)
    size = 1 if unit == "messages" else _SIZE
    answered = [Answered(sent, done, size) for sent, done in seen.facts["answered"]]
    faults = []
    if not seen.met:
        faults.append("a rate that delays refuses nothing")
    # If more was acknowledged than the log has, the log is not reliable.
    if sum(each.amount for each in answered) > sum(each.amount for each in admitted):
        faults.append("more was acknowledged than the decision log has")
    if (surplus := limit.surplus_answered(answered)) > 0:
        faults.append(f"the clients got {surplus:.0f} {unit} more than the limit permits")
    return by_law(seen, limit, admitted, log.held("publish", policy, unit), unit, faults)


def publish_rate_reject(topic: str, **settings: object) -> Scene:
    """A rate limit that refuses excess messages.

    :param settings: more settings of the topic.
    """
    return Scene(
        "publish-rate-reject",
        topic,
        {"max_publish_rate": f"{_HASTE_RATE}/s", **settings},
        f"{_HASTE_RATE} at once pass, messages above {_HASTE_RATE}/s are refused at once",
        _hasten,
        _judge_refusing,
    )


async def _hasten(stage: Stage) -> Seen:
    answered: list[tuple[float, float]] = []
    errors = []
    async with stage.clients() as client:
        producer = await client.producer(stage.topic, "impatient")
        for _ in range(_HASTE):
            sent = time.time_ns() / 1e9
            if error := await refusal(producer.publish(10)):
                errors.append(error)
            else:
                answered.append((sent, time.time_ns() / 1e9))
        await asyncio.sleep(2 / _HASTE_RATE)
        after = await refusal(producer.publish(10))
    text = (
        f"{len(answered)} of {_HASTE} accepted, {len(errors)} refused at once; a moment later the same "
        f"producer was {'refused' if after else 'accepted'}"
    )
    return Seen(not after, text, next(iter(errors), ""), {"answered": answered, "refused": len(errors)})


def _judge_refusing(seen: Seen, log: TopicLog) -> Observation:
    limit = Limit(_HASTE_RATE, _HASTE_RATE)
    admitted = log.admitted("publish", "messages")
    refused = log.refused("publish", "max_publish_rate", "messages")
    faults = [] if seen.met else ["messages are still refused when the limit would admit them again"]
    answered = [Answered(sent, done, 1) for sent, done in seen.facts["answered"]]
    if max(limit.surplus(admitted), limit.surplus_answered(answered)) > 0:
        faults.append("more passed than the limit permits")
    if wrongly := limit.wrongly_refused(admitted, refused):
        faults.append(f"{wrongly} refused that the limit had room for")
    too_slow = "" if seen.facts["refused"] else "the client is too slow here to be refused"
    return judged(seen.text, faults, too_slow, seen.error)
