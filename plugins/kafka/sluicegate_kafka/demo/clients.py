"""aiokafka clients for the scenes, and measuring what they get."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sluicegate.demo.scene import Stage

PARTITION = 0
_BATCH_BYTES = 4_096
"""Small batches, so that a rate is kept in small steps."""
_SESSION_MS = 6_000
_REQUEST_MS = 8_000
"""Also the longest time that a producer goes on trying while it is being stopped."""


def words(error: BaseException) -> str:
    """An error as its client words it, on one line."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    return text if name in text else f"{name}: {text}" if text else name


@asynccontextmanager
async def producer(stage: Stage, client_id: str, **options: Any) -> AsyncIterator[Any]:
    """An `AIOKafkaProducer` that is connected to the gate."""
    from aiokafka import AIOKafkaProducer

    made = AIOKafkaProducer(
        bootstrap_servers=stage.address,
        client_id=client_id,
        request_timeout_ms=_REQUEST_MS,
        **{"acks": 1, "max_batch_size": _BATCH_BYTES, **options},
    )
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def send(client: Any, stage: Stage, *sizes: int, **options: Any) -> list[str]:
    """Send messages at once, so that they make up one batch.

    :param sizes: bytes of each message.
    :param options: more arguments of aiokafka's `send`.
    :return: for each message the client's own error, empty if it was acknowledged.
    """
    answers = [await client.send(stage.topic, bytes(size), partition=PARTITION, **options) for size in sizes]
    done = await asyncio.gather(*answers, return_exceptions=True)
    return [words(outcome) if isinstance(outcome, BaseException) else "" for outcome in done]


async def fill(stage: Stage, messages: int, size: int) -> None:
    """Publish messages through the gate.

    :raises RuntimeError: if one was refused.
    """
    async with producer(stage, "fill") as client:
        refused = [error for error in await send(client, stage, *[size] * messages) if error]
    if refused:
        raise RuntimeError(f"cannot fill {stage.topic}: {refused[0]}")


@asynccontextmanager
async def reader(stage: Stage, client_id: str) -> AsyncIterator[Any]:
    """A consumer without a group, at the beginning of the scene's partition."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    made = AIOKafkaConsumer(
        bootstrap_servers=stage.address, client_id=client_id, auto_offset_reset="earliest"
    )
    made.assign([TopicPartition(stage.topic, PARTITION)])
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


class Member:
    """A consumer in a group.

    :param stage: the scene's.
    :param group: name of the group.
    :param client_id: the client's own name.
    """

    def __init__(self, stage: Stage, group: str, client_id: str) -> None:
        from aiokafka import AIOKafkaConsumer

        self.client: Any = AIOKafkaConsumer(
            stage.topic,
            bootstrap_servers=stage.address,
            group_id=group,
            client_id=client_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=500,
        )

    async def join(self) -> str:
        """Join the group.

        :return: the client's own error, empty if the group took it in.
        """
        from aiokafka.errors import KafkaError

        try:
            await self.client.start()
        except KafkaError as error:
            return words(error)
        return ""

    async def leave(self) -> None:
        """Leave the group."""
        await self.client.stop()


async def arrivals(client: Any, seconds: float) -> list[float]:
    """When messages arrive at a consumer.

    :param seconds: how long to look, from the first message on.
    :return: seconds since the first message, one for each message.
    """
    first: float | None = None
    times: list[float] = []
    while first is None or time.monotonic() - first < seconds:
        got = await client.getmany(timeout_ms=50)
        now = time.monotonic()
        for records in got.values():
            first = now if first is None else first
            times += [now - first] * len(records)
    return times
