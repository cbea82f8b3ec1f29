"""Memory for messages that wait for a rate: a bound for each producer, and the gateway's budget for all."""

import sys
from collections import Counter
from collections.abc import Callable
from typing import Final

from sluicegate.engine.budget import Budget
from sluicegate_pulsar.config import PublishQueue
from sluicegate_pulsar.session.producer_state.producer import Producer

FRAME_OVERHEAD: Final = 160
"""Bytes that a queued frame takes besides its own: its object, its entry in the queue and its time.
The frame is a copy, as otherwise a small one would keep alive the whole read that it is part of."""
_SPARE_PART = 4
"""This part of the budget is left to others: incomplete frames, requests, deliveries."""
_LARGE_PART = 64
"""A producer with this part of the budget may have to give some of it back. It keeps their number small."""


class PublishMemory:
    """Memory of the waiting messages of one front's producers.

    :param queue: bounds for each producer.
    :param budget: what all sessions may hold together.
    """

    __slots__ = ("_budget", "_large", "_most_bytes", "_most_frames", "_used")

    def __init__(self, queue: PublishQueue, budget: Budget) -> None:
        self._most_frames = queue.messages or sys.maxsize
        self._most_bytes = queue.bytes
        self._budget = budget
        self._used: Counter[Producer] = Counter()
        """Memory of the queue and of the refusals of each producer that has any."""
        self._large: dict[Producer, Callable[[Producer], bool]] = {}

    def of(self, producer: Producer) -> int:
        """Memory of one producer, bytes."""
        return self._used[producer]

    def is_full(self, producer: Producer) -> bool:
        """Whether a producer's queue is full."""
        frames = len(producer.queue) + len(producer.refusals)
        return frames >= self._most_frames or self._used[producer] >= self._most_bytes

    def take_queued(self, producer: Producer, size: int, shed: Callable[[Producer], bool]) -> bool:
        """Take memory for one more frame of a producer's queue; False if there is none.

        A producer's first frame may be of any size: all that it sends waits behind it.

        :param size: of the frame, overhead included.
        :param shed: makes the producer release part of its memory if others need it; returns False if it has
            none to release.
        """
        is_first = not producer.queue and not producer.refusals
        if not is_first and (self.is_full(producer) or self._used[producer] + size > self._most_bytes):
            return False
        spare = self._budget.limit // _SPARE_PART if producer.queue else 0
        if not self._take(producer, size, spare):
            return False
        if self._used[producer] * _LARGE_PART > self._budget.limit:
            self._large[producer] = shed
        return True

    def take(self, producer: Producer, size: int) -> bool:
        """Take memory for what cannot wait elsewhere, such as a refusal; False if none is left."""
        return self._take(producer, size, 0)

    def _take(self, producer: Producer, size: int, spare: int) -> bool:
        while not self._budget.take(size, spare):
            if not self._shed_largest(producer):
                return False
        self._used[producer] += size
        return True

    def _shed_largest(self, asking: Producer) -> bool:
        """Make the largest user release memory; False if that is the requester, or none is large."""
        while self._large:
            largest = max(self._large, key=self.of)
            if largest is asking:
                return False
            if self._large[largest](largest):
                return True
            self._large.pop(largest, None)
        return False

    def give(self, producer: Producer, size: int) -> None:
        """Release memory."""
        self._budget.give(size)
        left = self._used[producer] - size
        if left:
            self._used[producer] = left
        else:
            del self._used[producer]
        if self._large and left * _LARGE_PART <= self._budget.limit:
            self._large.pop(producer, None)
