"""A metadata store that lives as long as its process: for tests, demos and a reference broker."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from time import monotonic_ns

from sluicegate.store.metadata.keyspace import KeySpace
from sluicegate.store.metadata.metadata_store import (
    NO_LEASE,
    Delete,
    Entry,
    Event,
    Listing,
    Put,
    Unchanged,
    refuse_short,
    refuse_unusable,
)
from sluicegate.store.policy_store import StoreError

_KEPT = 10_000
_NS = 1_000_000_000


class MemoryMetadata:
    """See `MetadataStore`; `another` gives a second client of the same keys.

    :param now_ns: a clock of the caller's own, who then calls `expire` after turning it. By default leases
        expire by the monotonic clock, by themselves.
    :param kept: revisions whose changes are kept for watches.
    """

    def __init__(self, now_ns: Callable[[], int] | None = None, kept: int = _KEPT) -> None:
        self._space = KeySpace(kept)
        self._own_clock = now_ns
        self._now_ns = now_ns or monotonic_ns
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._watching: set[asyncio.Event] = set()

    def another(self) -> "MemoryMetadata":
        """Another client of the same keys, with watches of its own, to be closed for itself."""
        other = MemoryMetadata(self._own_clock)
        other._space = self._space
        return other

    def expire(self) -> None:
        """End the leases whose time is over."""
        self._space.expire(self._now_ns())

    def compact(self) -> None:
        """Forget all changes up to now, as an etcd does from time to time."""
        self._space.compact()

    async def get(self, key: str) -> Entry | None:
        """What a key holds."""
        return self._open().get(key)

    async def list(self, prefix: str) -> Listing:
        """All keys that begin with a prefix."""
        return self._open().listing(prefix)

    async def put(self, key: str, value: bytes, lease: int = NO_LEASE) -> int:
        """Set a key."""
        space = self._open()
        space.apply([Put(key, value, lease)])
        return space.revision

    async def delete(self, key: str) -> bool:
        """Delete a key."""
        space = self._open()
        before = space.revision
        space.apply([Delete(key)])
        return space.revision > before

    async def transact(self, conditions: Sequence[Unchanged], changes: Sequence[Put | Delete]) -> bool:
        """Make all changes as one revision if all conditions hold."""
        refuse_unusable(conditions, changes)
        space = self._open()
        held = space.holds(conditions)
        if held:
            space.apply(changes)
        return held

    async def grant(self, ttl_s: int) -> int:
        """Make a lease."""
        refuse_short(ttl_s)
        lease = self._open().grant(ttl_s, self._now_ns())
        self._wait_for_expiry()
        return lease

    async def keep_alive(self, lease: int) -> None:
        """Have a lease live for its whole time from now on."""
        self._open().keep_alive(lease, self._now_ns())

    async def revoke(self, lease: int) -> None:
        """End a lease and delete its keys."""
        self._open().revoke(lease)

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[Sequence[Event], None]:
        """Every change of keys that begin with a prefix."""
        changed = asyncio.Event()
        self._watching.add(changed)
        self._space.listeners.add(changed.set)
        try:
            while not self._closed:
                changed.clear()
                after, found = self._space.since(prefix, after)
                for events in found:
                    yield events
                if not found:
                    await changed.wait()
        finally:
            self._watching.discard(changed)
            self._space.listeners.discard(changed.set)

    async def close(self) -> None:
        """End the watches of this client; its leases still expire."""
        self._closed = True
        for changed in self._watching:
            changed.set()

    def _open(self) -> KeySpace:
        """The keys, without those whose lease is over."""
        if self._closed:
            raise StoreError("the metadata store was closed", "open it again")
        self.expire()
        return self._space

    def _wait_for_expiry(self) -> None:
        """Set a timer for the end of the next lease, so that leases expire without a call of any client."""
        if self._timer is not None:
            self._timer.cancel()
        due_ns = self._space.next_expiry_ns
        if self._own_clock is None and due_ns is not None:
            wait_s = max(0, due_ns - self._now_ns()) / _NS
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._expire_later)

    def _expire_later(self) -> None:
        self.expire()
        self._wait_for_expiry()
