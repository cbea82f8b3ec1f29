"""Decides a large SEND by its start, so that its payload passes unread.

It takes what the usual way decides by the command and the number of messages alone. What is not admitted is
kept whole and goes that way, with the decision made.
"""

from collections.abc import Callable, Mapping

from sluicegate.model import Decision
from sluicegate_pulsar.codec.entries import BATCH_TAG, LONG_TAG, messages_in
from sluicegate_pulsar.codec.sends import send_start
from sluicegate_pulsar.session.producer_state.producer import Producer

IsCurrent = Callable[[Producer], bool]


class Foretelling:
    """The large messages of one connection.

    :param live: its producers by id.
    :param is_current: whether a producer uses the gate that is in force.
    """

    __slots__ = ("_is_current", "_live", "_passing", "_refused", "decision")

    def __init__(self, live: Mapping[int, Producer], is_current: IsCurrent) -> None:
        self._live = live
        self._is_current = is_current
        self._passing: Producer | None = None
        """Whose message passes."""
        self._refused: Producer | None = None
        """Whose message the decision is about."""
        self.decision: Decision | None = None
        """On a message that is not admitted and has not arrived whole: its gate must not be asked twice."""

    def __call__(self, data: bytes, start: int, stop: int, now_ns: int, /) -> bool:
        """Whether a message passes whose first bytes these are."""
        fields = send_start(data, start, stop)
        if fields is None or self.decision is not None:
            return False
        producer_id, _, _, _, _, size, begin, end = fields
        producer = self._live.get(producer_id)
        if producer is None or not producer.is_plain or size > producer.size_limit:
            return False
        metadata = data[begin:end]
        messages = messages_in(metadata) if BATCH_TAG in metadata or LONG_TAG in metadata else 1
        if not messages or not self._is_current(producer):
            return False
        operation = producer.operation
        operation.messages = messages
        operation.bytes = operation.largest = size
        self.decision = producer.gate.publish(operation, now_ns)
        if self.decision is not None:
            self._refused = producer
            return False
        self._passing = producer
        return True

    def ended(self) -> None:
        """All of it has passed: only now can the broker answer."""
        if self._passing is not None:
            self._passing.sent += 1
            self._passing = None

    def take(self) -> Decision | None:
        """The decision on the message that has now arrived whole; None if there is none."""
        decision, self.decision, self._refused = self.decision, None, None
        return decision

    def forget(self, now_ns: int) -> None:
        """The message will not be decided: leave the queue that it waits in."""
        if self._refused is not None:
            self._refused.gate.abandon(self._refused.operation, now_ns)
        self.take()
