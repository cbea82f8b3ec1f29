"""What the policies make of the messages that a consumer of the Python client receives."""

from collections import deque
from time import monotonic_ns
from typing import Any

import pulsar

from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.receiving import Receiver
from sluicegate_pulsar.names import topic_name


class Incoming:
    """The messages of one consumer.

    :param policed: who it is; it has attached as a consumer of its topics.
    :param subscription: its name.
    """

    def __init__(self, policed: PolicedClient, subscription: str) -> None:
        self.policed = policed
        self.waiting: deque[pulsar.Message] = deque()
        """What was received and may not pass yet, in order; unacknowledged, so nothing of it is lost."""
        self._subscription = subscription
        self._receivers: dict[str, Receiver] = {}

    def wait_ns(self, message: pulsar.Message) -> int:
        """How long a message has to wait; 0 if the application may have it now."""
        receiver = self._receiver(topic_name(message.topic_name()).full)
        return receiver.wait_ns(len(message.data()), message.publish_timestamp(), monotonic_ns())

    def acknowledged(self, message: Any) -> None:
        """The application has acknowledged a message.

        :param message: or its id, which does not name its topic.
        """
        receiver = next(iter(self._receivers.values()), None)
        if isinstance(message, pulsar.Message):
            receiver = self._receiver(topic_name(message.topic_name()).full)
        if receiver is not None:
            receiver.acknowledged(1, monotonic_ns())

    def _receiver(self, topic: str) -> Receiver:
        receiver = self._receivers.get(topic)
        if receiver is None:
            receiver = self._receivers[topic] = Receiver(self.policed, topic, self._subscription)
        return receiver
