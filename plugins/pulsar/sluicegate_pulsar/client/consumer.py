"""The Python client's consumer with the policies in its process."""

from collections import deque
from threading import Event
from time import monotonic_ns
from typing import Any

import pulsar

from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.receiving import Receiver
from sluicegate_pulsar.names import topic_name

_MS = 1_000_000


class Consumer(pulsar.Consumer):  # type: ignore[misc]  # pulsar-client has no types
    """The original's consumer; a message that has to wait stays in this process, unacknowledged.

    :param original: the consumer that the client has opened.
    :param policed: who it is; it has attached as a consumer of its topics.
    """

    def __init__(self, original: pulsar.Consumer, policed: PolicedClient) -> None:
        self.__dict__.update(vars(original))
        self._policed = policed
        self._receivers: dict[str, Receiver] = {}
        self._waiting: deque[pulsar.Message] = deque()
        """What was received and may not pass yet, in order."""
        self._is_closed = Event()

    def receive(self, timeout_millis: int | None = None) -> pulsar.Message:
        """The next message, as the original's, once it may pass.

        :raises pulsar.exceptions.Timeout: if it does not come, or may not pass, in time.
        """
        end_ns = None if timeout_millis is None else monotonic_ns() + timeout_millis * _MS
        message = self._waiting.popleft() if self._waiting else super().receive(timeout_millis)
        try:
            self._wait_for(message, end_ns)
        except BaseException:
            self._waiting.appendleft(message)
            raise
        return message

    def batch_receive(self) -> list[pulsar.Message]:
        """Messages, as the original's, once all of them may pass."""
        messages = [*self._waiting, *super().batch_receive()]
        self._waiting.clear()
        for message in messages:
            self._wait_for(message, None)
        return messages

    def acknowledge(self, message: Any) -> None:
        """Acknowledge a message, as the original."""
        super().acknowledge(message)
        if isinstance(message, pulsar.Message):
            receiver = self._receivers.get(topic_name(message.topic_name()).full)
        else:  # an id alone does not name its topic
            receiver = next(iter(self._receivers.values()), None)
        if receiver is not None:
            receiver.acknowledged(1, monotonic_ns())

    def close(self) -> None:
        """Close it, as the original; its places are free then, and what waited is delivered elsewhere."""
        self._is_closed.set()
        try:
            super().close()
        finally:
            with self._policed.engine.lock:
                self._policed.detach(monotonic_ns())

    def _wait_for(self, message: pulsar.Message, end_ns: int | None) -> None:
        topic = topic_name(message.topic_name()).full
        receiver = self._receivers.get(topic)
        if receiver is None:
            receiver = self._receivers[topic] = Receiver(self._policed, topic, self.subscription_name())
        nbytes, published_ms = len(message.data()), message.publish_timestamp()
        while wait_ns := receiver.wait_ns(nbytes, published_ms, now_ns := monotonic_ns()):
            if end_ns is not None and now_ns >= end_ns:
                raise pulsar.exceptions.Timeout("a message waits for its delivery rate or delay")
            until_ns = now_ns + wait_ns if end_ns is None else min(now_ns + wait_ns, end_ns)
            if self._is_closed.wait((until_ns - now_ns) / 1e9):
                raise pulsar.exceptions.AlreadyClosed("the consumer was closed")
