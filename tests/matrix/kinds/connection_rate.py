"""The scene of connection rates: clients that all attach at once."""

import asyncio
from functools import partial

from sluicegate.demo.clients import DemoClient, attempt
from sluicegate.demo.law import Admitted, Limit
from sluicegate.demo.scene import Observation, Scene, Seen, Stage, Verdict
from sluicegate.demo.topic_log import TopicLog

_POLICY = "connection_rate_limit"
_RATE = 2
_ATTACHING = ("connect", "attach_producer", "attach_consumer")


def connection_rate(topic: str, producers: int) -> Scene:
    """A limit on how fast producers attach: each is let in, when its turn has come."""
    return Scene(
        "connection-rate",
        topic,
        {_POLICY: f"{_RATE}/s"},
        f"of {producers} producers {_RATE} attach at once, the others at {_RATE}/s",
        partial(_attach, producers=producers),
        _judge,
    )


async def _attach(stage: Stage, producers: int) -> Seen:
    async def publish(client: DemoClient, number: int) -> None:
        made = await client.producer(stage.topic, f"producer-{number}")
        await made.publish(10)

    async with stage.clients() as client:
        tried = await asyncio.gather(*(attempt(publish(client, n)) for n in range(producers)))
    errors = [error for _, error in tried if error]
    text = f"{producers - len(errors)} of {producers} were let in"
    return Seen(not errors, text, next(iter(errors), ""))


def _judge(seen: Seen, log: TopicLog) -> Observation:
    admitted = [
        Admitted(row["time"].timestamp(), 1)
        for row in log.rows
        if row["operation"] in _ATTACHING and row["action"] == "allow"
    ]
    held = log.count("delay", _POLICY)
    text = f"{seen.text}, {len(admitted)} in the decision log, which has {held} rows delay"
    if not seen.met or Limit(_RATE, _RATE).surplus(admitted) > 0:
        return Observation(Verdict.DIFFERENT, text, seen.error)
    return Observation(Verdict.RIGHT if held else Verdict.UNSATURATED, text)
