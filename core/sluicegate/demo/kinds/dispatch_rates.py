"""Scenes for dispatch rates: consumers that could read faster than a limit allows."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from time import monotonic

from sluicegate.demo.clients import DemoConsumer, attempt, fill
from sluicegate.demo.kinds.judging import by_law, judged, worst
from sluicegate.demo.law import Admitted, Answered, Limit
from sluicegate.demo.scene import Judge, Observation, Scene, Seen, Stage, Verdict
from sluicegate.demo.topic_log import TopicLog

MESSAGES = "messages"
_RATE = 50
_BYTES = 32 * 1024
_BURST_S = 0.5
_PLAY_S = 4.0
_FILL = int(_RATE * (_PLAY_S + 1))
_SIZE = 1_000
_LOOK_S = 0.1
_QUIET_S = 1.0
_DROP_RATE = 20
_WEIGHT = 4


def dispatch_rate(topic: str, *, unit: str = MESSAGES, readers: int = 1) -> Scene:
    """A limit on the dispatch rate of a topic.

    :param unit: `messages` or `bytes`.
    :param readers: number of consumers, each with its own subscription; a single one can be without.
    """
    subject = "a reader of a full topic gets" if readers == 1 else f"{readers} readers of a full topic get"
    return _pacing("dispatch-rate", topic, unit, subject, readers, alone=readers == 1)


def subscription_dispatch_rate(
    topic: str, *, unit: str = MESSAGES, readers: int = 2, alone: bool = False
) -> Scene:
    """A limit on the dispatch rate of each subscription.

    :param unit: `messages` or `bytes`.
    :param readers: number of consumers, each with its own subscription.
    :param alone: True for consumers without a group, if the system has those.
    """
    subject = f"each of {'two' if readers == 2 else readers} subscriptions gets"
    return _pacing("subscription-dispatch-rate", topic, unit, subject, readers, alone=alone)


def _pacing(name: str, topic: str, unit: str, subject: str, readers: int, *, alone: bool) -> Scene:
    policy = "max_" + name.replace("-", "_") + ("" if unit == MESSAGES else "_bytes")
    if unit == MESSAGES:
        rate, promise = f"{_RATE}/s", f"{_RATE} messages/s and {_RATE * _BURST_S:.0f} at once"
    else:
        kib = _BYTES // 1024
        rate, promise = f"{kib}KiB/s", f"{kib} KiB/s and {kib * _BURST_S:.0f} KiB at once"
    return Scene(
        name,
        topic,
        {policy: rate, "burst_seconds": _BURST_S},
        f"{subject} at most {promise}",
        partial(_read, readers=readers, alone=alone),
        _judge_reading(policy, unit, named=not alone),
        weight=readers * _WEIGHT,
    )


async def _read(stage: Stage, readers: int, alone: bool) -> Seen:
    async with stage.clients() as client:
        producer = await client.producer(stage.topic, "filling")
        await producer.publish(_SIZE)  # publishing creates the topic
        began = time.time_ns() / 1e9
        made = [
            await attempt(
                client.consumer(stage.topic, f"readers-{n}-{stage.attempt}", f"reader-{n}", alone=alone)
            )
            for n in range(1, readers + 1)
        ]
        if refused := [error for _, error in made if error]:
            return Seen(
                False,
                f"{len(refused)} of {readers} could not join",
                refused[0],
            )
        await fill(producer, _FILL - 1, _SIZE)
        received = await _receive_all(stage, [consumer for consumer, _ in made])
    counts = " and ".join(str(len(times)) for times in received)
    facts = {"began": began, "received": received}
    return Seen(all(received), f"{counts} messages", facts=facts)


async def _receive_all(stage: Stage, consumers: Sequence[DemoConsumer]) -> list[list[float]]:
    """Receive until the scene is over and each consumer has a message; return the times, in s since 1970.

    On a busy machine the first message of a consumer may take longer than the scene.
    """
    received: list[list[float]] = [[] for _ in consumers]
    soonest, latest = monotonic() + _PLAY_S, monotonic() + stage.patience_s

    async def receive(consumer: DemoConsumer, times: list[float]) -> None:
        while (now := monotonic()) < soonest or (now < latest and not all(received)):
            message = await consumer.receive(_LOOK_S)
            if message is not None:
                times.append(message.received_ms / 1000)
                await consumer.acknowledge(message)

    await asyncio.gather(*map(receive, consumers, received))
    return received


def _surplus(limit: Limit, began: float, times: Sequence[float], size: int) -> float:
    return limit.surplus_answered(Answered(began, at, size) for at in times)


def _judge_reading(policy: str, unit: str, *, named: bool = True) -> Judge:
    """Create a judge of the readers' rates, per reader or in total, depending on the policy.

    :param named: False for consumers without a group. The log does not attribute rows to them, so only the
        clients' view can be judged.
    """
    rate, size = (_RATE, 1) if unit == MESSAGES else (_BYTES, _SIZE)
    limit, is_apart = Limit(rate, rate * _BURST_S), policy.startswith("max_subscription")

    def judge(seen: Seen, log: TopicLog) -> Observation:
        received = seen.facts["received"]
        faults = [] if seen.met else ["not all could read"]
        limited = received if is_apart else [[at for times in received for at in times]]
        if any(_surplus(limit, seen.facts["began"], times, size) > 0 for times in limited):
            faults.append("a client got more than the limit permits")
        admitted = log.admitted("dispatch", MESSAGES)
        if sum(len(times) for times in received) > sum(each.amount for each in admitted):
            faults.append("more was delivered than the decision log has")
        if is_apart and not named and not faults:
            held = log.held("dispatch", policy, unit)
            return Observation(Verdict.RIGHT if held else Verdict.UNSATURATED, seen.text)
        of_each: Sequence[str | None] = log.subscriptions("dispatch") if is_apart and named else [None]
        observations = [
            by_law(
                seen,
                limit,
                log.admitted("dispatch", unit, subscription),
                log.held("dispatch", policy, unit, subscription),
                unit,
                list(faults),
            )
            for subscription in of_each
        ]
        return worst(observations) if observations else Observation(Verdict.DIFFERENT, seen.text, seen.error)

    return judge


def dispatch_rate_drop(topic: str) -> Scene:
    """A rate limit that drops excess messages, on systems with unreliable messages."""
    return Scene(
        "dispatch-rate-drop",
        topic,
        {"max_dispatch_rate": f"{_DROP_RATE}/s", "on_limit": {"max_dispatch_rate": "drop"}},
        "of a topic that is not reliable, what is over the rate is dropped and counted",
        _drop,
        _judge_dropping,
    )


async def _drop(stage: Stage) -> Seen:
    async with stage.clients() as client:
        producer = await client.producer(stage.topic, "fleeting", reliable=False)
        consumer = await client.consumer(stage.topic, f"reader-{stage.attempt}", "reader")
        # An unreliable topic drops messages until its consumer reads.
        until = monotonic() + stage.patience_s
        while await consumer.receive(_LOOK_S) is None and monotonic() < until:
            await producer.publish(_SIZE)
        sent = 10 * _DROP_RATE
        await fill(producer, sent, _SIZE)
        arrived = 0
        while await consumer.receive(_QUIET_S) is not None:
            arrived += 1
    return Seen(arrived > 0, f"{arrived} of {sent} arrived", facts={"arrived": arrived})


def _judge_dropping(seen: Seen, log: TopicLog) -> Observation:
    limit = Limit(_DROP_RATE, _DROP_RATE)
    admitted = log.admitted("dispatch", "messages")
    dropped = [Admitted(row["time"].timestamp(), row["messages"]) for row in log.of("dispatch", "drop")]
    faults = [] if seen.met else ["nothing arrived"]
    if limit.surplus(admitted) > 0:
        faults.append("more was let through than the limit permits")
    if wrongly := limit.wrongly_refused(admitted, dropped):
        faults.append(f"{wrongly} dropped that the limit had room for")
    text = f"{seen.text}; the decision log has {len(dropped)} rows drop"
    return judged(
        text, faults, "" if dropped else "the client is too slow here to exceed the rate", seen.error
    )
