"""Duplicates in scenes for fixed delays: told, and wrong unless the system itself makes them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sluicegate.demo.clients import Message
from sluicegate.demo.kinds.fixed_delays import fixed_delay
from sluicegate.demo.scene import Seen


class Repeating:
    """A client, its producer and its consumer: delivers every message, and the first one twice."""

    topic = "t"
    patience_s = 60.0

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[Message] = asyncio.Queue()
        self._published = 0

    @asynccontextmanager
    async def clients(self) -> AsyncIterator["Repeating"]:
        yield self

    async def producer(self, topic: str, name: str) -> "Repeating":
        return self

    async def consumer(self, topic: str, subscription: str, name: str, **how: bool) -> "Repeating":
        return self

    async def publish(self, size: int) -> None:
        self._published += 1
        message = Message(size, float(self._published), 2_000.0 + self._published, None)
        for _ in range(2 if self._published == 1 else 1):
            self._waiting.put_nowait(message)

    async def receive(self, within_s: float) -> Message | None:
        try:
            return await asyncio.wait_for(self._waiting.get(), within_s)
        except TimeoutError:
            return None

    async def acknowledge(self, message: Message) -> None:
        pass


def seen(**options: Any) -> Seen:
    return asyncio.run(fixed_delay("t", **options).play(Repeating()))  # type: ignore[arg-type]


@pytest.mark.parametrize(("once", "met"), [(True, False), (False, True)])
def test_a_message_that_comes_twice_is_told_and_counts_once(once: bool, met: bool) -> None:
    found = seen(once=once)
    assert found.text == "20 of 20 messages, 1 of them twice"
    assert found.met is met
