"""A consumer of a client library that wants to be polled: a thread of its own does so all the time."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sluicegate.demo.clients import Message, RefusedError, words


@dataclass(frozen=True, slots=True)
class Polled:
    """What a library's consumer does; all of it is called in the thread."""

    poll: Callable[[], Sequence[Message]]
    """Waits a moment for messages. What it raises ends the consumer: it is what its user sees."""
    joined: Callable[[], bool]
    """Whether its group has given it its part; for one without a group, whether it has read anything."""
    close: Callable[[], object]


class PollingConsumer:
    """One consumer (`sluicegate.demo.clients.DemoConsumer`)."""

    def __init__(self, make: Callable[[], Polled], name: str) -> None:
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._joined: asyncio.Future[None] = self._loop.create_future()
        self._come: deque[Message] = deque()
        self._more = asyncio.Event()
        self._stopping = threading.Event()
        self._over = asyncio.Event()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    async def join(self) -> None:
        """Return once it takes part.

        :raises RefusedError: with the library's own error, if it is not let in; it does not try again then.
        """
        try:
            await self._joined
        except Exception as error:  # noqa: BLE001 - whatever the library raises is what its user sees
            await self._over.wait()
            raise RefusedError(words(error)) from None

    async def receive(self, within_s: float) -> Message | None:
        """The next message."""
        if not self._come:
            self._more.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._more.wait(), within_s)
        return self._come.popleft() if self._come else None

    async def acknowledge(self, message: Message) -> None:
        """A group commits offsets and acknowledges no single message."""

    async def close(self) -> None:
        """Leave."""
        self._stopping.set()
        await self._over.wait()

    def _run(self) -> None:
        polled: Polled | None = None
        try:
            polled = self._make()
            while not self._stopping.is_set():
                self._on_loop(self._take, polled.poll(), polled.joined())
        except Exception as error:  # noqa: BLE001 - told to whoever waits for it to join
            self._on_loop(self._fail, error)
        finally:
            with suppress(Exception):
                if polled is not None:
                    polled.close()
            self._on_loop(self._over.set)

    def _on_loop(self, call: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop may have ended before the thread
            self._loop.call_soon_threadsafe(call, *arguments)

    def _take(self, messages: Sequence[Message], joined: bool) -> None:
        self._come += messages
        if messages:
            self._more.set()
        if (joined or messages) and not self._joined.done():
            self._joined.set_result(None)

    def _fail(self, error: Exception) -> None:
        if not self._joined.done():
            self._joined.set_exception(error)
