"""A metadata store that lives as long as its process: for tests, demos and a reference broker."""

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
        """Of the watches of all clients."""


class MemoryMetadata(TableMetadata):
    """See `MetadataStore`; `another` gives a second client of the same keys.

    :param now_ns: a clock of the caller's own, who then calls `expire` after turning it. By default leases
        expire by the monotonic clock, by themselves.
    :param kept: revisions whose changes are kept for watches.
    :param other: a client whose keys this one shares; keys of its own if it is left out.
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
        """Another client of the same keys, with watches of its own, to be closed for itself."""
        return MemoryMetadata(self._own_clock, self._kept, self)

    def expire(self) -> None:
        """End the leases whose time is over."""
        self._space.tables.do(self._expire)
        self._tell()

    async def grant(self, ttl_s: int) -> int:
        """Make a lease."""
        lease = await super().grant(ttl_s)
        self._wait_for_expiry()
        return lease

    async def close(self) -> None:
        """End the watches of this client; its leases still expire."""
        self._is_closed = True
        self._tell()

    async def _do(self, action: Action[Result]) -> Result:
        if self._is_closed:
            raise StoreError("the metadata store was closed", "open it again")
        return self._space.tables.do(action)

    def _wait_for_expiry(self) -> None:
        """Set a timer for the end of the next lease, so that leases expire without a call of any client."""
        if self._timer is not None:
            self._timer.cancel()
        due_ns = self._space.tables.do(keys.next_expiry_ns)
        if self._own_clock is None and due_ns is not None:
            wait_s = max(0, due_ns - self._now_ns()) / _NS
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._expire_later)

    def _expire_later(self) -> None:
        self.expire()
        self._wait_for_expiry()
