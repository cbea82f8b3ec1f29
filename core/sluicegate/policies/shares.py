"""Buckets over all topics of a gateway, by name: of all principals, of one, or of a group."""

from collections import OrderedDict
from weakref import WeakValueDictionary

from sluicegate.engine.buckets import LOCAL, Buckets
from sluicegate.engine.factors import Factor
from sluicegate.engine.quota import Quota
from sluicegate.engine.throttle import ThrottledLimit
from sluicegate.engine.wait_queue import WaitQueue
from sluicegate.model import ModeKind

MOST = 10_000
"""Buckets to keep, and most principals with a cached quota; the least recently used are evicted first."""
_CANDIDATES = 16
"""Shares to look at when making room for one."""


class Share:
    """One bucket, and the limits that factors derive from it."""

    __slots__ = ("__weakref__", "_buckets", "_name", "_reduced", "queue")

    def __init__(self, name: str, quota: Quota, burst_seconds: float, now_ns: int, buckets: Buckets) -> None:
        self._name = name
        self._buckets = buckets
        self.queue: WaitQueue = buckets.queue(
            self._name, quota.messages_per_s, quota.bytes_per_s, burst_seconds, now_ns
        )
        self._reduced: dict[tuple[str, ModeKind], ThrottledLimit] = {}

    def reduced(self, factor: Factor, kind: ModeKind) -> ThrottledLimit:
        """The limit reduced by a factor; each kind of the factor's mode has one of its own."""
        key = (factor.name, kind)
        limit = self._reduced.get(key)
        if limit is None or limit.factor is not factor:
            base, name = self.queue.bucket, f"{self._name}|{factor.name}|{kind}"
            queue = self._buckets.queue(name, 0, 0, base.burst_seconds, base.updated_ns)
            limit = self._reduced[key] = ThrottledLimit(factor, base, queue)
        return limit

    def is_evictable(self, now_ns: int) -> bool:
        """True if the share can be dropped: no operation waits and every bucket is full."""
        queues = (self.queue, *(limit.queue for limit in self._reduced.values()))
        return all(not queue.first and queue.bucket.is_full(now_ns) for queue in queues)


class Shares:
    """The buckets of one gateway.

    :param kind: tells them from the buckets of other policies.
    :param most: number of buckets to keep; up to twice as many while some cannot be dropped.
    """

    def __init__(self, kind: str, most: int = MOST) -> None:
        self.buckets: Buckets = LOCAL
        """Makes the buckets; set before the first is needed."""
        self._kind = kind
        self._most = most
        self._by_name: OrderedDict[str, Share] = OrderedDict()
        self._held: WeakValueDictionary[str, Share] = WeakValueDictionary()
        """All shares in use, including evicted ones: a name must never have two buckets."""

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str, quota: Quota, burst_seconds: float, now_ns: int) -> Share:
        """The share of a name: created with a full bucket, or updated to these rates with its balance."""
        share = self._by_name.get(name)
        if share is None:
            if len(self._by_name) >= self._most:
                self._make_room(now_ns)
            share = self._held.get(name)
            if share is None:
                limit = f"share|{self._kind}|{name}"
                share = Share(limit, quota, burst_seconds, now_ns, self.buckets)
            self._by_name[name] = self._held[name] = share
        self._by_name.move_to_end(name)
        share.queue.bucket.reconfigure(quota.messages_per_s, quota.bytes_per_s, burst_seconds, now_ns)
        return share

    def _make_room(self, now_ns: int) -> None:
        """Forget shares that can be dropped, of the first few; the others of these go to the end.

        One that is in debt, or for which operations wait, would come back with a full bucket.
        """
        for _ in range(min(len(self._by_name), _CANDIDATES)):
            if len(self._by_name) < self._most:
                return
            name, share = self._by_name.popitem(last=False)
            if not share.is_evictable(now_ns):
                self._by_name[name] = share
        if len(self._by_name) >= 2 * self._most:
            self._by_name.popitem(last=False)
