"""What the policies make of the messages that a consumer of the Python client receives."""

from collections import deque
from time import monotonic_ns
from typing import Any, TypeAlias

import pulsar

from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.receiving import Receiver
from sluicegate_pulsar.names import topic_name

_Id: TypeAlias = tuple[int, int, int, int]
"""Partition, ledger, entry and place in the batch, in the order of delivery."""


class Incoming:
    """The messages of one consumer.

    :param policed: who it is; it has attached as a consumer of its topics.
    :param subscription: its name; empty for a reader.
    """

    def __init__(self, policed: PolicedClient, subscription: str) -> None:
        self.policed = policed
        self.waiting: deque[pulsar.Message] = deque()
        """What was received and may not pass yet, in order; unacknowledged, so nothing of it is lost."""
        self._subscription = subscription
        self._receivers: dict[str, Receiver] = {}
        self._unacked: dict[_Id, Receiver] = {}
        """Delivered messages without an acknowledgement, where that matters."""

    def next_waiting(self) -> pulsar.Message | None:
        """The first of the messages that wait, taken out; None if there is none."""
        try:
            return self.waiting.popleft()
        except IndexError:
            return None

    def wait_ns(self, message: pulsar.Message) -> int:
        """How long a message has to wait; 0 if the application may have it now."""
        receiver = self._receiver(topic_name(message.topic_name()).full)
        now_ns = monotonic_ns()
        wait_ns = receiver.wait_ns(len(message.data()), message.publish_timestamp(), now_ns)
        if not wait_ns and receiver.counts_unacked(now_ns):
            if self._subscription:
                self._unacked[_id_of(message)] = receiver
            else:  # a reader acknowledges by itself what it gives out
                receiver.acknowledged(1, now_ns)
        return wait_ns

    def acknowledged(self, message: Any) -> None:
        """The application has acknowledged a message, or has given it back for another delivery.

        :param message: or its id.
        """
        receiver = self._unacked.pop(_id_of(message), None) if self._unacked else None
        if receiver is not None:
            receiver.acknowledged(1, monotonic_ns())

    def acknowledged_up_to(self, message: Any) -> None:
        """The application has acknowledged a message and those before it.

        :param message: or its id.
        """
        last = _id_of(message)
        for each in [each for each in tuple(self._unacked) if each[0] == last[0] and each <= last]:
            self._unacked.pop(each).acknowledged(1, monotonic_ns())

    def all_given_back(self) -> None:
        """All unacknowledged messages are delivered again."""
        for receiver in self._unacked.values():
            receiver.acknowledged(1, monotonic_ns())
        self._unacked.clear()
        self.waiting.clear()

    def _receiver(self, topic: str) -> Receiver:
        receiver = self._receivers.get(topic)
        if receiver is None:
            receiver = self._receivers[topic] = Receiver(self.policed, topic, self._subscription)
        return receiver


def _id_of(message: Any) -> _Id:
    """The id of a message, whichever of the library's classes it is given as."""
    given = message.message_id() if hasattr(message, "message_id") else message
    parts = (given.partition, given.ledger_id, given.entry_id, given.batch_index)
    partition, ledger, entry, index = (part() if callable(part) else part for part in parts)
    return partition, ledger, entry, index
