"""The Python client's consumer with the policies in its process."""

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Event
from time import monotonic_ns
from typing import Any

import pulsar

from sluicegate.client.policed_client import PolicedClient
from sluicegate_pulsar.client.incoming import Incoming

_MS = 1_000_000


class Reader(pulsar.Reader):  # type: ignore[misc]  # pulsar-client has no types
    """The original's reader, to which dispatch rates and delays apply as to a consumer.

    :param original: the reader that the client has opened.
    :param policed: who it is; it has attached as a consumer of its topic.
    """

    def __init__(self, original: pulsar.Reader, policed: PolicedClient) -> None:
        self.__dict__.update(vars(original))
        self._incoming = Incoming(policed, "")
        self._is_closed = Event()

    def read_next(self, timeout_millis: int | None = None) -> pulsar.Message:
        """The next message, as the original's, once it may pass.

        :raises pulsar.exceptions.Timeout: if it does not come, or may not pass, in time.
        """
        end_ns = end_of(timeout_millis)
        message = self._incoming.next_waiting() or super().read_next(timeout_millis)
        return passed(self._incoming, message, end_ns, self._is_closed)

    def passed(self, message: pulsar.Message) -> pulsar.Message:
        """A received message once it may pass.

        :raises pulsar.exceptions.AlreadyClosed: if the reader is closed before.
        """
        return passed(self._incoming, message, None, self._is_closed)

    def has_message_available(self) -> bool:
        """Whether there is a message behind the position, as the original; also one that waits."""
        return bool(self._incoming.waiting) or super().has_message_available()

    def seek(self, messageid: Any) -> None:
        """Go to a message or a time, as the original; what waits is read again from there."""
        super().seek(messageid)
        self._incoming.waiting.clear()

    def close(self) -> None:
        """Close it, as the original; its place is free then."""
        self._is_closed.set()
        try:
            super().close()
        finally:
            self._incoming.policed.end(monotonic_ns())


class Consumer(pulsar.Consumer):  # type: ignore[misc]  # pulsar-client has no types
    """The original's consumer; a message that has to wait stays in this process, unacknowledged.

    :param original: the consumer that the client has opened.
    :param policed: who it is; it has attached as a consumer of its topics.
    """

    def __init__(self, original: pulsar.Consumer, policed: PolicedClient) -> None:
        self.__dict__.update(vars(original))
        self._incoming = Incoming(policed, original.subscription_name())
        self._is_closed = Event()

    def receive(self, timeout_millis: int | None = None) -> pulsar.Message:
        """The next message, as the original's, once it may pass.

        :raises pulsar.exceptions.Timeout: if it does not come, or may not pass, in time.
        """
        end_ns = end_of(timeout_millis)
        message = self._incoming.next_waiting() or super().receive(timeout_millis)
        return passed(self._incoming, message, end_ns, self._is_closed)

    def batch_receive(self) -> list[pulsar.Message]:
        """Messages, as the original's, once all of them may pass."""
        messages = [*self._incoming.waiting, *super().batch_receive()]
        self._incoming.waiting.clear()
        return [self.passed(message) for message in messages]

    def passed(self, message: pulsar.Message) -> pulsar.Message:
        """A received message once it may pass.

        :raises pulsar.exceptions.AlreadyClosed: if the consumer is closed before.
        """
        return passed(self._incoming, message, None, self._is_closed)

    def acknowledge(self, message: Any) -> None:
        """Acknowledge a message, as the original."""
        super().acknowledge(message)
        self._incoming.acknowledged(message)

    def acknowledge_cumulative(self, message: Any) -> None:
        """Acknowledge a message and those before it, as the original."""
        super().acknowledge_cumulative(message)
        self._incoming.acknowledged_up_to(message)

    def negative_acknowledge(self, message: Any) -> None:
        """Have a message delivered again, as the original."""
        super().negative_acknowledge(message)
        self._incoming.acknowledged(message)

    def redeliver_unacknowledged_messages(self) -> None:
        """Have all unacknowledged messages delivered again, as the original; what waits is among them."""
        super().redeliver_unacknowledged_messages()
        self._incoming.all_given_back()

    def close(self) -> None:
        """Close it, as the original; its places are free then, and what waited is delivered elsewhere."""
        self._is_closed.set()
        try:
            super().close()
        finally:
            self._incoming.policed.end(monotonic_ns())


def listening(
    listener: Callable[[Any, pulsar.Message], object], opened: "Future[Any]"
) -> Callable[[Any, pulsar.Message], None]:
    """A listener that the original calls with each message; the application's is called once it may pass.

    :param opened: gives the consumer or reader with policies.
    """

    def on_message(_: Any, message: pulsar.Message) -> None:
        receiver = opened.result()
        with suppress(pulsar.exceptions.AlreadyClosed):
            listener(receiver, receiver.passed(message))

    return on_message


def end_of(timeout_millis: int | None) -> int | None:
    """The monotonic time at which a time-out ends; None for none."""
    return None if timeout_millis is None else monotonic_ns() + timeout_millis * _MS


def passed(
    incoming: Incoming, message: pulsar.Message, end_ns: int | None, is_closed: Event
) -> pulsar.Message:
    """A received message once it may pass; it is the next one again if that is not in time.

    :param end_ns: from `end_of`.
    """
    try:
        while wait_ns := incoming.wait_ns(message):
            now_ns = monotonic_ns()
            if end_ns is not None and now_ns >= end_ns:
                raise pulsar.exceptions.Timeout("a message waits for its delivery rate or delay")
            until_ns = now_ns + wait_ns if end_ns is None else min(now_ns + wait_ns, end_ns)
            if is_closed.wait((until_ns - now_ns) / 1e9):
                raise pulsar.exceptions.AlreadyClosed("the consumer was closed")
    except BaseException:
        incoming.waiting.appendleft(message)
        raise
    return message
