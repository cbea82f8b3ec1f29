"""Leader election among failover controllers, and against Danube's own load managers.

The leader holds `/cluster/leader` on a lease, the key by which Danube's brokers elect a load manager.
A controller registers under its id on the same lease, which tells it from a broker: both keys go together.
The revision at which the leader's key was written is a fencing token: each change by the leader is made only
if the key is still as this controller wrote it, however late the change arrives.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from sluicegate.store.metadata.metadata_store import Entry, LeaseExpiredError, MetadataStore, Put, Unchanged
from sluicegate_danube.failover.keys import FOREIGN_WRITER, LEADER, controller_key
from sluicegate_danube.failover.values import ValueShapeError, leader_id

_NS = 1_000_000_000
_FOREIGN_S = 60
"""How long a foreign write is taken for a sign that its writer is there."""


class ForeignLoadManagerError(Exception):
    """Another load manager is at work, which would move topics too."""


@dataclass(eq=False)
class Election:
    """One controller's part in the election."""

    store: MetadataStore
    """The cluster's metadata."""
    controller: int
    """Its id, which no broker and no other controller has."""
    ttl_s: int
    """Time of its lease: how long after its death another one takes over."""
    now_ns: Callable[[], int]
    """Monotonic time."""
    about: str = ""
    """What others can read about it."""
    take_over: bool = field(default=False, kw_only=True)
    """Whether it takes the leader's key from another load manager."""
    _lease: int | None = None
    _kept_ns: int = 0
    _fence: Unchanged | None = None

    @property
    def fence(self) -> Unchanged | None:
        """What each change of the leader rests on; None if this controller does not lead.

        A controller that has not renewed its lease for its whole duration no longer counts itself as leader.
        That only saves useless work; the condition makes changes safe.
        """
        if self.now_ns() - self._kept_ns >= self.ttl_s * _NS:
            self._fence = None
        return self._fence

    async def refuse_foreign(self) -> None:
        """Look for another load manager.

        :raises ForeignLoadManagerError: if there is one, and take-over was not requested.
        """
        if self.take_over:
            return
        leader = await self.store.get(LEADER)
        if leader is not None and await self._is_foreign(leader):
            raise ForeignLoadManagerError(_led_by(leader))
        written = await self.store.get(FOREIGN_WRITER)
        if written is not None:
            raise ForeignLoadManagerError(
                f"another load manager wrote {written.value.decode(errors='replace')} within the last "
                f"{_FOREIGN_S} s"
            )

    async def campaign(self) -> None:
        """Become the leader if there is none.

        :raises ForeignLoadManagerError: if another load manager leads.
        :raises StoreError: if the store cannot be used.
        """
        try:
            await self._stand()
        except ForeignLoadManagerError:
            self._fence = None
            raise
        except LeaseExpiredError:
            self.forget()
            await self._stand()

    async def _stand(self) -> None:
        lease = await self._join()
        leader = await self.store.get(LEADER)
        if leader is None or (not self._is_mine(leader) and await self._may_take(leader)):
            known = leader.modified if leader is not None else 0
            mine = Put(LEADER, str(self.controller).encode(), lease)
            await self.store.transact([Unchanged(LEADER, known)], [mine])
            leader = await self.store.get(LEADER)
        led = leader is not None and self._is_mine(leader)
        self._fence = Unchanged(LEADER, leader.modified) if leader is not None and led else None

    async def keep(self) -> None:
        """Renew the lease, if there is one; due every third of its time.

        :raises StoreError: if the store cannot be used; the lease may last still.
        """
        if self._lease is None:
            return
        asked_ns = self.now_ns()
        try:
            await self.store.keep_alive(self._lease)
        except LeaseExpiredError:
            self.forget()
            return
        self._kept_ns = asked_ns

    async def resign(self) -> None:
        """End the lease, so that another controller takes over at once."""
        lease = self._lease
        self.forget()
        if lease is not None:
            await self.store.revoke(lease)

    def forget(self) -> None:
        """Start again with another lease: the old one has expired, or the leader's key has another holder."""
        self._lease, self._fence = None, None

    async def record_foreign_write(self, key: str) -> None:
        """Make another load manager known to controllers that start within the next minute.

        :param key: what it wrote.
        """
        lease = await self.store.grant(_FOREIGN_S)
        await self.store.put(FOREIGN_WRITER, key.encode(), lease)

    async def _join(self) -> int:
        """Register, with a lease."""
        if self._lease is None:
            self._kept_ns = self.now_ns()
            lease = await self.store.grant(self.ttl_s)
            about = json.dumps({"about": self.about}).encode()
            await self.store.put(controller_key(self.controller), about, lease)
            self._lease = lease
        return self._lease

    def _is_mine(self, leader: Entry) -> bool:
        return leader.lease == self._lease and leader.value == str(self.controller).encode()

    async def _may_take(self, leader: Entry) -> bool:
        """Whether the leader's key is to be taken from its holder."""
        if not await self._is_foreign(leader):
            return False
        if not self.take_over:
            raise ForeignLoadManagerError(_led_by(leader))
        return True

    async def _is_foreign(self, leader: Entry) -> bool:
        try:
            if await self.store.get(controller_key(leader_id(leader.value))) is not None:
                return False
        except ValueShapeError:
            return True
        # A controller's two keys go together. If it has just died, the leader's key has expired too.
        return await self.store.get(LEADER) == leader


def _led_by(leader: Entry) -> str:
    who = leader.value[:40].decode(errors="replace")
    return f"another load manager leads: {LEADER} says {who}, which is not a failover controller"
