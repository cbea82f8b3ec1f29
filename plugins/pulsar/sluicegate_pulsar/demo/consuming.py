"""Scenes of consuming: subscriptions, consumers, dispatch rates, unacknowledged messages, fixed delay."""

import asyncio
from typing import Any

from sluicegate.demo.measuring import rates
from sluicegate.demo.scene import Observation, Scene, Stage
from sluicegate_pulsar.demo.clients import ages, arrivals, attempt, blocking, client, fill, publish

_READ_S = 4.0
_RATE = 200
_SUBSCRIPTION_RATE = 100
_SIZE = 100
_DELAY_MS = 2_000
_LATE_MS = 1_000
_DELAYED = 20
_UNACKED = 10


def _earliest() -> Any:
    import pulsar

    return pulsar.InitialPosition.Earliest


async def _reads(consumer: Any) -> bool:
    return bool(await ages(consumer, 1, 5.0))


async def _subscriptions(stage: Stage) -> Observation:
    async with client(stage) as of:
        made = [await attempt(of.subscribe, stage.topic, f"subscription-{n}") for n in (1, 2, 3)]
        await fill(stage, of, 5, _SIZE)
        reading = sum([await _reads(consumer) for consumer, error in made if not error])
        again = (await attempt(of.subscribe, stage.topic, "subscription-1-reader"))[1]
    joined = sum(not error for _, error in made)
    text = f"{joined} of 3 were made, and {reading} of them read; {3 - joined} refused"
    return Observation(joined == 2 and reading == 2 and bool(again), text, made[-1][1])


async def _consumers(stage: Stage) -> Observation:
    import pulsar

    async with client(stage) as of:
        made = [
            await attempt(of.subscribe, stage.topic, "workers", consumer_type=pulsar.ConsumerType.Shared)
            for _ in range(3)
        ]
        joined = sum(not error for _, error in made)
        await fill(stage, of, 20, _SIZE)
        reading = sum([await _reads(consumer) for consumer, error in made if not error])
    text = f"{joined} of 3 joined, and {reading} of them read; {3 - joined} refused"
    return Observation(joined == 2 and reading == 2, text, made[-1][1])


async def _dispatch_rate(stage: Stage) -> Observation:
    async with client(stage) as of:
        await fill(stage, of, int(_RATE * (_READ_S + 1)) + _RATE, _SIZE)
        consumer = await blocking(of.subscribe, stage.topic, "reader", initial_position=_earliest())
        first, rate = rates(await arrivals(consumer, _READ_S), _READ_S)
    met = first <= 2.2 * _RATE and 0.8 * _RATE <= rate <= 1.1 * _RATE
    return Observation(
        met, f"{rate:.0f} messages/s over {_READ_S - 1:.0f} s, after {first} in the first second"
    )


async def _subscription_rate(stage: Stage) -> Observation:
    async with client(stage) as of:
        await fill(stage, of, int(_SUBSCRIPTION_RATE * (_READ_S + 1)) + _SUBSCRIPTION_RATE, _SIZE)
        consumers = [
            await blocking(of.subscribe, stage.topic, f"readers-{n}", initial_position=_earliest())
            for n in (1, 2)
        ]
        times = await asyncio.gather(*(arrivals(consumer, _READ_S) for consumer in consumers))
    found = [rates(at, _READ_S)[1] for at in times]
    met = all(0.8 * _SUBSCRIPTION_RATE <= rate <= 1.1 * _SUBSCRIPTION_RATE for rate in found)
    text = f"{found[0]:.0f} and {found[1]:.0f} messages/s over {_READ_S - 1:.0f} s, {sum(found):.0f} together"
    return Observation(met, text)


async def _unacknowledged(stage: Stage) -> Observation:
    async with client(stage) as of:
        consumer = await blocking(of.subscribe, stage.topic, "lazy")
        await fill(stage, of, 5 * _UNACKED, _SIZE)
        taken: list[Any] = []

        def take() -> None:
            import pulsar

            try:
                while True:
                    taken.append(consumer.receive(timeout_millis=1_000))
            except pulsar.Timeout:
                return

        await blocking(take)
        before = len(taken)
        for message in taken:
            consumer.acknowledge(message)
        await blocking(take)
    text = f"{before} delivered and no more; {len(taken) - before} more once those were acknowledged"
    return Observation(before == _UNACKED and len(taken) == 2 * _UNACKED, text)


async def _delayed(stage: Stage, kind: str, **options: Any) -> Observation:
    import pulsar

    async with client(stage) as of:
        consumer = await blocking(
            of.subscribe, stage.topic, "reader", consumer_type=getattr(pulsar.ConsumerType, kind)
        )
        producer = await blocking(of.create_producer, stage.topic)
        reading = asyncio.ensure_future(ages(consumer, _DELAYED))
        for _ in range(_DELAYED):
            await publish(producer, _SIZE, **options)
            await asyncio.sleep(0.05)
        late = [age for _, age in await reading]
    if not late:
        return Observation(False, f"none of {_DELAYED} messages came")
    met = len(late) == _DELAYED and min(late) >= _DELAY_MS and max(late) <= _DELAY_MS + _LATE_MS
    return Observation(
        met, f"{len(late)} of {_DELAYED} messages, after {min(late):.0f} to {max(late):.0f} ms"
    )


async def _shared(stage: Stage) -> Observation:
    return await _delayed(stage, "Shared")


async def _exclusive(stage: Stage) -> Observation:
    return await _delayed(stage, "Exclusive")


async def _overridden(stage: Stage) -> Observation:
    return await _delayed(stage, "Shared", deliver_at=1)


SCENES = (
    Scene(
        "subscriptions",
        "persistent://public/default/subscriptions",
        {"max_subscriptions_per_topic": 2},
        "two subscriptions are made and read, a third is refused",
        _subscriptions,
    ),
    Scene(
        "consumers-topic",
        "persistent://public/default/consumers",
        {"max_consumers_per_topic": 2},
        "two consumers join and read, a third is refused",
        _consumers,
    ),
    Scene(
        "consumers-subscription",
        "persistent://public/default/workers",
        {"max_consumers_per_subscription": 2},
        "two consumers of the subscription join and read, a third is refused",
        _consumers,
    ),
    Scene(
        "dispatch-rate",
        "persistent://public/default/dispatch",
        {"max_dispatch_rate": f"{_RATE}/s"},
        f"a reader of a full topic gets its burst, then {_RATE} messages/s",
        _dispatch_rate,
    ),
    Scene(
        "subscription-dispatch-rate",
        "persistent://public/default/readers",
        {"max_subscription_dispatch_rate": f"{_SUBSCRIPTION_RATE}/s"},
        f"each of two subscriptions gets {_SUBSCRIPTION_RATE} messages/s, apart from the other",
        _subscription_rate,
    ),
    Scene(
        "unacked",
        "persistent://public/default/unacked",
        {"max_unacked_messages_per_consumer": _UNACKED},
        f"a consumer gets {_UNACKED} messages, and more only when it acknowledges",
        _unacknowledged,
    ),
    Scene(
        "fixed-delay",
        "persistent://public/default/delayed-shared",
        {"fixed_delivery_delay": f"{_DELAY_MS // 1000}s"},
        f"each message comes {_DELAY_MS} ms after it was published or a little later",
        _shared,
    ),
    Scene(
        "fixed-delay-exclusive",
        "persistent://public/default/delayed-exclusive",
        {"fixed_delivery_delay": f"{_DELAY_MS // 1000}s"},
        "the same on an exclusive subscription, where the broker itself does not delay",
        _exclusive,
    ),
    Scene(
        "fixed-delay-overrides",
        "persistent://public/default/delayed-always",
        {"fixed_delivery_delay": f"{_DELAY_MS // 1000}s"},
        "the same for messages whose client asks for delivery at once",
        _overridden,
    ),
)
