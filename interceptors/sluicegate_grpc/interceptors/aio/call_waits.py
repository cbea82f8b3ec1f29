"""Waiting on the event loop for what a call enforcer waits for."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from sluicegate.sessions.work import Ask
from sluicegate_grpc.interceptors.enforcer import Delivery, Waiting, seconds_left

Result = TypeVar("Result")
ListSubscriptions = Callable[[str], Awaitable[Iterable[str] | None]]


async def finish(
    waiting: Waiting[Result],
    lists: ListSubscriptions | None = None,
    room: asyncio.Event | None = None,
) -> Result:
    """Wait until a call may proceed; if the task is cancelled, its place is given up.

    :param lists: lists the subscriptions of a topic.
    :param room: set when it may proceed earlier than expected.
    :raises RefusedError: if it may not.
    """
    try:
        wait = next(waiting)
        while True:
            names = None
            if isinstance(wait, Ask):
                names = await lists(str(wait.question)) if lists is not None else None
            elif room is None:
                await asyncio.sleep(seconds_left(wait))
            else:
                await _either(room, seconds_left(wait))
            wait = waiting.send(names)
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        waiting.close()


async def _either(room: asyncio.Event, seconds: float) -> None:
    room.clear()
    try:
        async with asyncio.timeout(seconds):
            await room.wait()
    except TimeoutError:
        pass


class Paced:
    """A stream of messages to one consumer, with the event that signals room."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._room = asyncio.Event()
        loop = asyncio.get_running_loop()

        def tell() -> None:
            loop.call_soon_threadsafe(self._room.set)

        delivery.on_room(tell)

    async def passes(self, data: bytes) -> bool:
        """Wait until a message may be sent; False to drop it."""
        passes = self._delivery.pass_on(data)
        return passes if isinstance(passes, bool) else await finish(passes, room=self._room)

    def close(self, *, has_left: bool = True) -> None:
        """The stream has ended."""
        self._delivery.close(has_left=has_left)
