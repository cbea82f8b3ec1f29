"""A metadata store in memory, for tests, demos and a reference broker."""

import asyncio
from collections.abc import Callable
from time import monotonic_ns

from sluicegate.store.metadata import sqlite_keys as keys
from sluicegate.store.metadata.tables import KEPT, Action, Result, TableMetadata
from sluicegate.store.policy_store import StoreError
from sluicegate.store.sqlite_file import SqliteMemory

_NS = 1_000_000_000


class _Space:
    """The keys that the clients of one store share."""

    def __init__(self) -> None:
        self.tables = SqliteMemory(keys.SCHEMA)
        self.changed: set[asyncio.Event] = set()
        """One event for each watch of any client."""


class MemoryMetadata(TableMetadata):
    """A `MetadataStore` in memory; `another` creates a second client of the same keys.

    :param now_ns: the caller's clock; the caller then calls `expire` after advancing it. By default leases
        expire by the monotonic clock, without a call.
    :param other: client to share keys with; by default the client has its own keys.
    """

    def __init__(
        self,
        now_ns: Callable[[], int] | None = None,
        kept: int = KEPT,
        other: "MemoryMetadata | None" = None,
    ) -> None:
        self._space: _Space = _Space() if other is None else other._space  # noqa: SLF001 - of this class
        super().__init__(now_ns or monotonic_ns, kept, None, self._space.changed)
        self._own_clock = now_ns
        self._timer: asyncio.TimerHandle | None = None

    def another(self) -> "MemoryMetadata":
        """Create another client of the same keys, with its own watches and its own `close`."""
        return MemoryMetadata(self._own_clock, self._kept, self)

    def expire(self) -> None:
        """Revoke expired leases."""
        self._space.tables.do(self._expire)
        self._notify_watches()

    async def grant(self, ttl_s: int) -> int:
        """Create a lease."""
        lease = await super().grant(ttl_s)
        self._wait_for_expiry()
        return lease

    async def close(self) -> None:
        """End the watches of this client; its leases still expire."""
        self._is_closed = True
        self._notify_watches()

    async def _do(self, action: Action[Result]) -> Result:
        if self._is_closed:
            raise StoreError("the metadata store was closed", "open it again")
        return self._space.tables.do(action)

    def _wait_for_expiry(self) -> None:
        """Schedule the expiry of the next lease, so that leases expire without a client's call."""
        if self._timer is not None:
            self._timer.cancel()
        due_ns = self._space.tables.do(keys.next_expiry_ns)
        if self._own_clock is None and due_ns is not None:
            wait_s = max(0, due_ns - self._now_ns()) / _NS
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._expire_later)

    def _expire_later(self) -> None:
        self.expire()
        self._wait_for_expiry()
