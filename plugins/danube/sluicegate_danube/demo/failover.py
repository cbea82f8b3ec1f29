"""A scene of failover: the owner of a topic dies, and its clients go on at another broker."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic, time_ns
from typing import TypeVar

from sluicegate.demo.clients import DemoConsumer, DemoProducer, RefusedError, refusal
from sluicegate.demo.scene import Observation, Scene, Seen, Stage, Verdict
from sluicegate.demo.topic_log import TopicLog

T = TypeVar("T")
GIVE, KILL = "give", "kill"
"""What the backend does: have the broker that dies own the topic; kill it."""
_SIZE, _MOST = 10, 100
_AGAIN_S = 0.05
_LOOK_S = 0.2


def failover(topic: str) -> Scene:
    """One producer that is all that may be there, and whose broker dies."""
    return Scene(
        "failover",
        topic,
        {"max_producers_per_topic": 1, "max_message_size": f"{_MOST}B"},
        "the topic's broker dies; at another one the same producer goes on, which has the only place, "
        "and the topic's limits hold",
        _play,
        _judge,
    )


async def _play(stage: Stage) -> Seen:
    await stage.act(GIVE)
    async with stage.clients() as client:
        producer = await _let_in(lambda: client.producer(stage.topic, "steady", reliable=False), stage)
        reads = await _let_in(
            lambda: client.consumer(stage.topic, "before", f"before-{stage.attempt}"), stage
        )
        before = await _received(producer, reads, stage.patience_s)
        killed = await stage.act(KILL)
        errors = await _until_acknowledged(producer, stage.patience_s)
        first_s = time_ns() / 1e9 - killed["at"]
        reads = await _let_in(lambda: client.consumer(stage.topic, "after", f"after-{stage.attempt}"), stage)
        received = await _received(producer, reads, stage.patience_s)
        refused = await _refused(producer, stage.patience_s)
    first = "was never acknowledged" if errors is None else f"was acknowledged {first_s:.1f} s later"
    text = (
        f"{'' if before else 'nothing was received at first; '}the first message after the kill {first}, "
        f"from the same producer; a consumer {'has' if received else 'does not have'} what came then; "
        f"{_MOST + 1} B were {'refused' if refused else 'accepted'}"
    )
    met = before and errors is not None and received and bool(refused)
    return Seen(met, text, errors or refused, dict(killed))


async def _let_in(attach: Callable[[], Awaitable[T]], stage: Stage) -> T:
    """Try until a client is admitted: a topic that has just moved may have no owner yet.

    :raises RefusedError: what it is told last, if it never is.
    """
    until = monotonic() + stage.patience_s
    while True:
        try:
            return await attach()
        except RefusedError:
            if monotonic() >= until:
                raise
        await asyncio.sleep(_AGAIN_S)


async def _until_acknowledged(producer: DemoProducer, patience_s: float) -> str | None:
    """Publish until a message is acknowledged.

    :return: the client's own first error, empty if there was none; None if none ever was acknowledged.
    """
    errors: list[str] = []
    until = monotonic() + patience_s
    while error := await refusal(producer.publish(_SIZE)):
        errors.append(error)
        if monotonic() >= until:
            return None
        await asyncio.sleep(_AGAIN_S)
    return errors[0] if errors else ""


async def _received(producer: DemoProducer, consumer: DemoConsumer, patience_s: float) -> bool:
    """Publish until a consumer has a message: it begins with what comes once it reads."""
    until = monotonic() + patience_s
    while await consumer.receive(_LOOK_S) is None:
        if monotonic() >= until:
            return False
        await refusal(producer.publish(_SIZE))
    return True


async def _refused(producer: DemoProducer, patience_s: float) -> str:
    """Why a message that is too large is refused, at the latest once the broker can be reached; or empty."""
    until = monotonic() + patience_s
    while (error := await refusal(producer.publish(_MOST + 1))).startswith("UNAVAILABLE"):
        if monotonic() >= until:
            return ""
        await asyncio.sleep(_AGAIN_S)
    return error


def _judge(seen: Seen, log: TopicLog) -> Observation:
    """By what clients saw; that the topic had another owner then is the gateway's word."""
    if not seen.facts["owned"]:
        text = "the topic had moved before its broker was killed: this machine stood still for too long"
        return Observation(Verdict.UNSATURATED, text)
    moved = [row for row in log.of("owner_changed", "allow") if row["time"].timestamp() >= seen.facts["at"]]
    text = seen.text if moved else f"{seen.text}; the decision log has no row owner_changed"
    return Observation(Verdict.RIGHT if seen.met and moved else Verdict.DIFFERENT, text, seen.error)
