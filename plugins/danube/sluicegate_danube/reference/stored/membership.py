"""A broker's registration: a key on a lease, which shows that the broker is alive."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import monotonic_ns

from sluicegate.store.metadata import NO_LEASE, LeaseExpiredError, MetadataStore, Put, Unchanged
from sluicegate.store.policy_store import StoreError

log = logging.getLogger("sluicegate.danube.reference")

_NS = 1_000_000_000
_RETRY_S = 0.2
_RENEWALS = 3
"""How often a lease is renewed within its time, as Danube does."""
_LEAST_S = 0.01


@dataclass(eq=False)
class Membership:
    """Registers, renews the lease, and registers again when the lease is lost.

    The broker may serve only while `is_valid`, which follows the clock and not the store's last answer: a
    process that was paused for longer than its lease notices before it answers any client.

    """

    store: MetadataStore
    key: str
    """Of the registration."""
    value: bytes
    """What it holds."""
    ttl_s: int
    """How long the lease lives without being renewed."""
    on_registered: Callable[[], Awaitable[None]] = field(kw_only=True)
    """Awaited each time it is registered."""
    on_lost: Callable[[], Awaitable[None]] = field(kw_only=True)
    """Awaited each time it finds its lease or key gone; serving has to end here."""
    now_ns: Callable[[], int] = field(default=monotonic_ns, kw_only=True)
    """The clock, monotonic; it has to go on while the process is paused."""
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep, kw_only=True)
    lost: int = 0
    """How often the lease was found gone."""
    _lease: int = 0
    _valid_until_ns: int = 0
    _logged: str = ""

    @property
    def is_valid(self) -> bool:
        """Whether the lease cannot have expired yet."""
        return self.now_ns() < self._valid_until_ns

    @property
    def lease(self) -> int:
        """The lease of the registration, for keys that end with it; NO_LEASE if it may have expired."""
        return self._lease if self.is_valid else NO_LEASE

    async def run(self) -> None:
        """Stay registered until this is cancelled."""
        while True:
            try:
                await self._register()
            except StoreError as error:
                self._tell(f"cannot register: {error}")
                await self.sleep(_RETRY_S)
                continue
            self._logged = ""
            await self.on_registered()
            why = await self._stay()
            self._valid_until_ns = 0
            self.lost += 1
            log.warning("%s: %s; serving ends, and the broker registers anew", self.key, why)
            await self.on_lost()

    async def leave(self) -> None:
        """End the lease, so that others need not wait for its expiry."""
        self._valid_until_ns = 0
        if self._lease:
            try:
                await self.store.revoke(self._lease)
            except StoreError as error:
                log.info("%s stays until its lease ends: %s", self.key, error)

    async def _register(self) -> None:
        began_ns = self.now_ns()
        entry = await self.store.get(self.key)
        if entry is not None and entry.value != self.value:
            raise StoreError(
                f"{self.key} is held by another broker: {entry.value[:200]!r}", "give each its own id"
            )
        lease = await self.store.grant(self.ttl_s)
        unchanged = Unchanged(self.key, entry.modified if entry is not None else 0)
        if not await self.store.transact([unchanged], [Put(self.key, self.value, lease)]):
            await self.store.revoke(lease)
            raise StoreError(f"{self.key} has changed meanwhile", "it is tried again")
        self._lease = lease
        self._valid_until_ns = began_ns + self.ttl_s * _NS

    async def _stay(self) -> str:
        """Renew the lease until it is lost; returns why."""
        while True:
            left_s = max(0, self._valid_until_ns - self.now_ns()) / _NS
            await self.sleep(max(min(self.ttl_s / _RENEWALS, left_s), _LEAST_S))
            if not self.is_valid:
                return "it was not renewed in time"
            began_ns = self.now_ns()
            try:
                async with asyncio.timeout((self._valid_until_ns - began_ns) / _NS):
                    await self.store.keep_alive(self._lease)
                    entry = await self.store.get(self.key)
            except LeaseExpiredError:
                return "the lease is gone"
            except (StoreError, TimeoutError) as error:
                self._tell(f"cannot be renewed: {str(error) or 'the store does not answer'}")
                continue
            if entry is None or entry.lease != self._lease:
                return "the key was deleted, or another process has taken it"
            self._valid_until_ns = began_ns + self.ttl_s * _NS

    def _tell(self, text: str) -> None:
        """Log each new reason once."""
        if text != self._logged:
            self._logged = text
            log.warning("%s: %s", self.key, text)
