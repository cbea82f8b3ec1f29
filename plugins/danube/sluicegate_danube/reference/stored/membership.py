"""A broker's registration: a key on a lease, which shows that the broker is alive."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import monotonic_ns

from sluicegate.store.metadata import NO_LEASE, LeaseExpiredError, MetadataStore, Put, Unchanged
from sluicegate.store.policy_store import StoreError

log = logging.getLogger("sluicegate.danube.reference")

_NS = 1_000_000_000
_RETRY_S = 0.2
_RENEWALS = 3
"""How often a lease is renewed within its time, as Danube does."""
_LEAST_S = 0.01


class Membership:
    """Registers, renews the lease, and registers again when the lease is lost.

    The broker may serve only while `is_valid`, which follows the clock and not the store's last answer: a
    process that was paused for longer than its lease notices before it answers any client.

    :param key: of the registration.
    :param value: what it holds.
    :param ttl_s: how long the lease lives without being renewed.
    :param on_registered: awaited each time it is registered.
    :param on_lost: awaited each time it finds its lease or key gone; serving has to end here.
    :param now_ns: the clock, monotonic; it has to go on while the process is paused.
    """

    def __init__(
        self,
        store: MetadataStore,
        key: str,
        value: bytes,
        ttl_s: int,
        *,
        on_registered: Callable[[], Awaitable[None]],
        on_lost: Callable[[], Awaitable[None]],
        now_ns: Callable[[], int] = monotonic_ns,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.lost = 0
        """How often the lease was found gone."""
        self._store = store
        self._key = key
        self._value = value
        self._ttl_s = ttl_s
        self._on_registered = on_registered
        self._on_lost = on_lost
        self._now_ns = now_ns
        self._sleep = sleep
        self._lease = 0
        self._valid_until_ns = 0
        self._told = ""

    @property
    def is_valid(self) -> bool:
        """Whether the lease cannot have expired yet."""
        return self._now_ns() < self._valid_until_ns

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
                await self._sleep(_RETRY_S)
                continue
            self._told = ""
            await self._on_registered()
            why = await self._stay()
            self._valid_until_ns = 0
            self.lost += 1
            log.warning("%s: %s; serving ends, and the broker registers anew", self._key, why)
            await self._on_lost()

    async def leave(self) -> None:
        """End the lease, so that others need not wait for its expiry."""
        self._valid_until_ns = 0
        if self._lease:
            try:
                await self._store.revoke(self._lease)
            except StoreError as error:
                log.info("%s stays until its lease ends: %s", self._key, error)

    async def _register(self) -> None:
        began_ns = self._now_ns()
        found = await self._store.get(self._key)
        if found is not None and found.value != self._value:
            raise StoreError(
                f"{self._key} is held by another broker: {found.value[:200]!r}", "give each its own id"
            )
        lease = await self._store.grant(self._ttl_s)
        held = Unchanged(self._key, found.modified if found is not None else 0)
        if not await self._store.transact([held], [Put(self._key, self._value, lease)]):
            await self._store.revoke(lease)
            raise StoreError(f"{self._key} has changed meanwhile", "it is tried again")
        self._lease = lease
        self._valid_until_ns = began_ns + self._ttl_s * _NS

    async def _stay(self) -> str:
        """Renew the lease until it is lost; returns why."""
        while True:
            left_s = max(0, self._valid_until_ns - self._now_ns()) / _NS
            await self._sleep(max(min(self._ttl_s / _RENEWALS, left_s), _LEAST_S))
            if not self.is_valid:
                return "it was not renewed in time"
            began_ns = self._now_ns()
            try:
                async with asyncio.timeout((self._valid_until_ns - began_ns) / _NS):
                    await self._store.keep_alive(self._lease)
                    found = await self._store.get(self._key)
            except LeaseExpiredError:
                return "the lease is gone"
            except (StoreError, TimeoutError) as error:
                self._tell(f"cannot be renewed: {str(error) or 'the store does not answer'}")
                continue
            if found is None or found.lease != self._lease:
                return "the key was deleted, or another process has taken it"
            self._valid_until_ns = began_ns + self._ttl_s * _NS

    def _tell(self, text: str) -> None:
        """Log each new reason once."""
        if text != self._told:
            self._told = text
            log.warning("%s: %s", self._key, text)
