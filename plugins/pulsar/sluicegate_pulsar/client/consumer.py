"""The Python client's consumer with the policies in its process."""

from threading import Event
from time import monotonic_ns
from typing import Any

import pulsar

from sluicegate.client.policed_client import PolicedClient
from sluicegate_pulsar.client.incoming import Incoming

_MS = 1_000_000


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
        end_ns = None if timeout_millis is None else monotonic_ns() + timeout_millis * _MS
        waiting = self._incoming.waiting
        message = waiting.popleft() if waiting else super().receive(timeout_millis)
        try:
            self._wait_for(message, end_ns)
        except BaseException:
            waiting.appendleft(message)
            raise
        return message

    def batch_receive(self) -> list[pulsar.Message]:
        """Messages, as the original's, once all of them may pass."""
        messages = [*self._incoming.waiting, *super().batch_receive()]
        self._incoming.waiting.clear()
        for message in messages:
            self._wait_for(message, None)
        return messages

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
            policed = self._incoming.policed
            with policed.engine.lock:
                policed.detach(monotonic_ns())

    def _wait_for(self, message: pulsar.Message, end_ns: int | None) -> None:
        while wait_ns := self._incoming.wait_ns(message):
            now_ns = monotonic_ns()
            if end_ns is not None and now_ns >= end_ns:
                raise pulsar.exceptions.Timeout("a message waits for its delivery rate or delay")
            until_ns = now_ns + wait_ns if end_ns is None else min(now_ns + wait_ns, end_ns)
            if self._is_closed.wait((until_ns - now_ns) / 1e9):
                raise pulsar.exceptions.AlreadyClosed("the consumer was closed")
