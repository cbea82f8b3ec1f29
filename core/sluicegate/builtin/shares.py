"""Buckets over all topics of a gateway, by name: of all principals, of one, or of a group that shares."""

from collections import OrderedDict
from weakref import WeakValueDictionary

from sluicegate.engine.bucket import DualBucket
from sluicegate.engine.factors import Factor
from sluicegate.engine.quota import Quota
from sluicegate.engine.throttle import ThrottledLimit
from sluicegate.engine.wait_queue import WaitQueue

MOST = 10_000
"""Buckets, and principals whose quota is remembered; the least used are forgotten first."""
_LOOKS = 16
"""How many of the least used are looked at for one that is full, so that forgetting it changes nothing."""


class Share:
    """One bucket, and what factors leave of it."""

    __slots__ = ("__weakref__", "_reduced", "queue")

    def __init__(self, quota: Quota, burst_seconds: float, now_ns: int) -> None:
        bucket = DualBucket(quota.messages_per_s, quota.bytes_per_s, burst_seconds, now_ns)
        self.queue = WaitQueue(bucket)
        self._reduced: dict[tuple[str, bool], ThrottledLimit] = {}

    def reduced(self, factor: Factor, *, observed: bool) -> ThrottledLimit:
        """What a factor leaves of it; what is only observed has a bucket of its own."""
        key = (factor.name, observed)
        limit = self._reduced.get(key)
        if limit is None or limit.factor is not factor:
            limit = self._reduced[key] = ThrottledLimit(factor, self.queue.bucket)
        return limit

    def is_evictable(self, now_ns: int) -> bool:
        """True if the share can be dropped: no operation waits and every bucket is full."""
        queues = (self.queue, *(limit.queue for limit in self._reduced.values()))
        return not any(queue.first or queue.bucket.utilisation(now_ns) for queue in queues)


class Shares:
    """The buckets of one gate.

    :param most: how many are kept.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._by_name: OrderedDict[str, Share] = OrderedDict()
        self._held: WeakValueDictionary[str, Share] = WeakValueDictionary()
        """All that a gate or a remembered principal still uses, forgotten or not: there must not be two."""

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str, quota: Quota, burst_seconds: float, now_ns: int) -> Share:
        """The bucket of a name, made full if it is new, else brought to these rates with its balance kept."""
        share = self._by_name.get(name)
        if share is None:
            if len(self._by_name) >= self._most:
                self._forget_one(now_ns)
            share = self._held.get(name) or Share(quota, burst_seconds, now_ns)
            self._by_name[name] = self._held[name] = share
        self._by_name.move_to_end(name)
        share.queue.bucket.reconfigure(quota.messages_per_s, quota.bytes_per_s, burst_seconds, now_ns)
        return share

    def _forget_one(self, now_ns: int) -> None:
        oldest = [name for name, _ in zip(self._by_name, range(_LOOKS), strict=False)]
        evictable = (name for name in oldest if self._by_name[name].is_evictable(now_ns))
        del self._by_name[next(evictable, oldest[0])]
