"""The client interface of the shared scenes; each broker room adapts its stock client to it."""

import asyncio
from typing import Any, NamedTuple, Protocol

_AT_ONCE = 10


class RefusedError(Exception):
    """The broker or the gateway refused an operation; the text is the client's own error on one line."""


class Message(NamedTuple):
    """A message as a consumer received it."""

    size: int
    """Bytes of its payload."""
    published_ms: float
    """The message's publish timestamp, in ms since 1970."""
    received_ms: float
    """When the consumer received it, in ms since 1970."""
    raw: Any
    """The client library's own object."""


class DemoProducer(Protocol):
    """One producer."""

    async def publish(self, size: int, **asked: Any) -> None:
        """Publish a message and wait until it is acknowledged.

        :param size: bytes of its payload.
        :param asked: more options of the client library.
        :raises RefusedError: if it is refused.
        """

    async def close(self) -> None:
        """Detach."""


class DemoConsumer(Protocol):
    """One consumer."""

    async def receive(self, within_s: float) -> Message | None:
        """The next message; None if none comes in time."""

    async def acknowledge(self, message: Message) -> None:
        """Acknowledge the message, if the system has acknowledgements."""

    async def close(self) -> None:
        """Detach."""


class DemoClient(Protocol):
    """A client library, connected to the gateway."""

    async def producer(self, topic: str, name: str, *, reliable: bool = True) -> DemoProducer:
        """Create a producer. On systems without registration it attaches when it first publishes.

        :param name: its own name.
        :param reliable: False for unreliable messages, if the system has those.
        :raises RefusedError: if it is refused.
        """

    async def consumer(
        self, topic: str, subscription: str, name: str, *, exclusive: bool = False, alone: bool = False
    ) -> DemoConsumer:
        """Create a consumer, which starts with the topic's first message.

        :param subscription: its subscription or group.
        :param name: its own name.
        :param exclusive: True for an exclusive subscription, if the system has those.
        :param alone: True if the scene needs no group, so that the client can read without one.
        :raises RefusedError: if it is refused.
        """


async def refusal(call: Any) -> str:
    """Await a call of a client.

    :return: the client's own error, empty if there was none.
    """
    try:
        await call
    except RefusedError as error:
        return str(error)
    return ""


async def attempt(call: Any) -> tuple[Any, str]:
    """Await a call of a client.

    :return: what it returned, or None; and the client's own error, empty if there was none.
    """
    try:
        return await call, ""
    except RefusedError as error:
        return None, str(error)


def words(error: BaseException) -> str:
    """Format a client's error on one line, with the name of its class."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    return text if name in text else f"{name}: {text}" if text else name


async def fill(producer: DemoProducer, messages: int, size: int) -> None:
    """Publish messages concurrently.

    :raises RefusedError: if one is refused.
    """
    waiting = iter(range(messages))

    async def send() -> None:
        for _ in waiting:
            await producer.publish(size)

    await asyncio.gather(*(send() for _ in range(_AT_ONCE)))
