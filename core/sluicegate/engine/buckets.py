"""Makes the buckets of limits by their names: local ones, or those of limits that gateways share."""

from typing import Final, Protocol

from sluicegate.engine.bucket import DualBucket
from sluicegate.engine.wait_queue import WaitQueue


class Buckets(Protocol):
    """Makes buckets; parameters are those of `DualBucket`.

    A name is the same at all gateways and workers of one broker, and another for each limit.
    """

    def bucket(
        self, name: str, messages_per_s: float, bytes_per_s: float, burst_seconds: float, now_ns: int
    ) -> DualBucket:
        """A bucket without a queue."""

    def queue(
        self, name: str, messages_per_s: float, bytes_per_s: float, burst_seconds: float, now_ns: int
    ) -> WaitQueue:
        """A bucket with the queue of those who wait for it."""


class LocalBuckets:
    """Buckets of this process alone."""

    def bucket(
        self, name: str, messages_per_s: float, bytes_per_s: float, burst_seconds: float, now_ns: int
    ) -> DualBucket:
        """A bucket that starts full."""
        return DualBucket(messages_per_s, bytes_per_s, burst_seconds, now_ns)

    def queue(
        self, name: str, messages_per_s: float, bytes_per_s: float, burst_seconds: float, now_ns: int
    ) -> WaitQueue:
        """A queue whose bucket starts full."""
        return WaitQueue(DualBucket(messages_per_s, bytes_per_s, burst_seconds, now_ns))


LOCAL: Final = LocalBuckets()
