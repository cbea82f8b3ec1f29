"""The scene that only Pulsar has: how long a delay a producer may ask for."""

import time

from sluicegate.demo.clients import refusal
from sluicegate.demo.kinds.sizes import outcome
from sluicegate.demo.scene import Scene, Seen, Stage

_MINUTE_MS = 60_000
_SECOND_MS = 1_000


async def _longest_delay(stage: Stage) -> Seen:
    async with stage.clients() as client:
        producer = await client.producer(stage.topic, "patient")
        now_ms = time.time_ns() // 1_000_000
        above = await refusal(producer.publish(10, deliver_at=now_ms + _MINUTE_MS))
        below = await refusal(producer.publish(10, deliver_at=now_ms + _SECOND_MS))
    text = f"a delay of a minute {outcome(above)}, of a second {outcome(below)} on the same producer"
    return Seen(bool(above) and not below, text, above)


SCENES = (
    Scene(
        "max-delay",
        "persistent://public/default/max-delay",
        {"max_delivery_delay": "10s"},
        "a message that asks for a longer delay is refused, others pass",
        _longest_delay,
    ),
)
