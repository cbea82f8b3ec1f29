"""What the shared scenes want of a client library; each broker room adapts its stock client to it."""

import asyncio
from typing import Any, NamedTuple, Protocol

_AT_ONCE = 10


class RefusedError(Exception):
    """The broker or the gateway said no; the text is the client's own error on one line."""


class Message(NamedTuple):
    """A message as a consumer got it."""

    size: int
    """Bytes of its payload."""
    published_ms: float
    """When its producer published it, in ms since 1970, as the message itself says."""
    received_ms: float
    """When the consumer had it, in ms since 1970."""
    raw: Any
    """The client library's own object."""


class DemoProducer(Protocol):
    """One producer."""

    async def publish(self, size: int, **asked: Any) -> None:
        """Publish a message and wait until it is acknowledged.

        :param size: bytes of its payload.
        :param asked: what else the client asks for, in the client library's own words.
        :raises RefusedError: if it is refused.
        """

    async def close(self) -> None:
        """Leave."""


class DemoConsumer(Protocol):
    """One consumer."""

    async def receive(self, within_s: float) -> Message | None:
        """The next message; None if none comes in time."""

    async def acknowledge(self, message: Message) -> None:
        """Tell the broker that the message is done with, where the system knows that."""

    async def close(self) -> None:
        """Leave."""


class DemoClient(Protocol):
    """A client library, connected to the gateway."""

    async def producer(self, topic: str, name: str, *, reliable: bool = True) -> DemoProducer:
        """A new producer; on systems that know no registration it attaches when it first publishes.

        :param name: its own name.
        :param reliable: False for messages that need not arrive, where the system knows that.
        :raises RefusedError: if it is not let in.
        """

    async def consumer(
        self, topic: str, subscription: str, name: str, *, exclusive: bool = False, alone: bool = False
    ) -> DemoConsumer:
        """A new consumer, which begins with the topic's first message.

        :param subscription: its subscription or group.
        :param name: its own name.
        :param exclusive: True for a subscription of one consumer, where the system knows kinds of them.
        :param alone: True if the scene needs no group, so that the system may read without one.
        :raises RefusedError: if it is not let in.
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
    """An error as its client words it, on one line, with the name of its class."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    return text if name in text else f"{name}: {text}" if text else name


async def fill(producer: DemoProducer, messages: int, size: int) -> None:
    """Publish messages, several at a time.

    :raises RefusedError: if one is refused.
    """
    waiting = iter(range(messages))

    async def send() -> None:
        for _ in waiting:
            await producer.publish(size)

    await asyncio.gather(*(send() for _ in range(_AT_ONCE)))
