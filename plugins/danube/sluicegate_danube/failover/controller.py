"""The failover controller: follows the cluster, and moves topics of dead brokers while it leads."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from time import monotonic_ns

from sluicegate.store.metadata.metadata_store import Event, Listing, MetadataStore, Unchanged
from sluicegate.store.policy_store import StoreError
from sluicegate_danube.failover import keys
from sluicegate_danube.failover.absences import Absences
from sluicegate_danube.failover.durable import incomplete
from sluicegate_danube.failover.election import Election
from sluicegate_danube.failover.failovers import Failovers, counted, some, summary
from sluicegate_danube.failover.figures import Figures
from sluicegate_danube.failover.foreign import ForeignWrites
from sluicegate_danube.failover.load_manager import LeadershipLostError, LoadManager
from sluicegate_danube.failover.view import ClusterView

log = logging.getLogger("sluicegate.danube.failover")
"""Under the gateway's own logger, which alone has a handler."""
_NS = 1_000_000_000
_ROUNDS = 4
"""Release, assign, and as much again for what changed meanwhile; the rest is for the next run."""


class Controller:
    """Moves topics of dead brokers to live ones. Several may run: the elected one acts.

    It never waits: `runner.run` or a test calls it when there is something to do.

    :param store: the cluster's metadata.
    :param election: its part in the election.
    :param grace_ns: how long a registration must be gone before its broker counts as dead.
    :param now_ns: monotonic time, as for the election.
    """

    def __init__(
        self,
        store: MetadataStore,
        election: Election,
        grace_ns: int = 0,
        now_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        self.figures = Figures()
        self.view = ClusterView()
        self.election = election
        self.absences = Absences(grace_ns, now_ns)
        self._store = store
        self._now_ns = now_ns
        self._foreign = ForeignWrites(now_ns)
        self._failovers = Failovers()
        self._unlisted: dict[int, set[str]] = {}

    def see(self, seen: Listing | Sequence[Event]) -> bool:
        """Apply a listing or a change of the store.

        :param seen: what `follow` gives of `/cluster/`.
        :return: whether there may be something to do.
        """
        self._answered()
        if isinstance(seen, Listing):
            self._foreign.known(entry.key for entry in seen.entries)
            self._replace(seen)
            return True
        for broker in self.view.registered_again(seen):
            self.figures.registered_again += 1
            where = self.view.address(broker)
            log.warning("broker %d (%s) is registered again under the same id", broker, where)
        self.figures.foreign_writes += self._foreign.look(seen, self.election.fence)
        self.view.apply(seen)
        if all(event.key.startswith(keys.LOADS) for event in seen):
            return False
        self._note()
        return True

    async def refresh(self) -> None:
        """List the cluster now."""
        listing = await self._store.list(keys.CLUSTER)
        if listing.replaces(self.view.revision):
            self._replace(listing)
        self._answered()

    async def run_once(self) -> None:
        """Campaign if there is no leader, and do all that there is to do if this controller leads.

        :raises ForeignLoadManagerError: if another load manager leads.
        :raises StoreError: if the store cannot be used; the next run goes on where this one ended.
        """
        led = self.figures.leading
        try:
            await self.election.campaign()
        finally:
            fence = self.election.fence
            self._leads(fence is not None)
        self._answered()
        if fence is None:
            return
        if not led:
            # What the controller before wrote last may not have been seen yet.
            await self.refresh()
        try:
            await self._act(fence)
        except LeadershipLostError as error:
            log.warning("%s", error)
            self.election.forget()
            self._leads(False)

    def failed(self, error: StoreError) -> None:
        """Note that the store could not be used: nothing is concluded from its silence."""
        self.figures.store_errors += 1
        self._leads(self.election.fence is not None)
        log.debug("%s", error)

    async def _act(self, fence: Unchanged) -> None:
        if (key := self._foreign.to_record()) is not None:
            log.error("another load manager is at work: %s was not written by this controller", key)
            await self.election.record_foreign_write(key)
        manager = LoadManager(self._store, [fence], self.figures, self._foreign.expect)
        for _ in range(_ROUNDS):
            changed = await manager.clear_up(self.view)
            for broker in self.absences.dead():
                changed |= await self._release(manager, broker)
            if changed:
                await self.refresh()
            given = await manager.assign(self.view)
            if others := self._failovers.given(given):
                log.info("%d topics that waited have an owner: %s", others.total(), counted(others))
            if not given:
                break
            await self.refresh()
        await self._finish()

    async def _release(self, manager: LoadManager, broker: int) -> bool:
        address, since_ns = self.absences.address(broker), self.absences.since_ns(broker)
        released, unlisted = await manager.delete_topic_allocation(self.view, broker)
        self._failovers.released(broker, address, since_ns, released)
        if unlisted - self._unlisted.get(broker, set()):
            log.error(
                "%d topics of dead broker %d have no durable entry and are left alone: %s",
                *(len(unlisted), broker, some(unlisted)),
            )
        self._unlisted[broker] = unlisted
        return bool(released)

    async def _finish(self) -> None:
        """Tell of each failover that is complete, in one line."""
        left = [broker for broker in self.absences.dead() if self._to_be_taken(broker)]
        for failover in self._failovers.finished(self.view, left):
            now_ns = self._now_ns()
            figures = self.figures
            figures.failovers += 1
            figures.last_failover_s = datetime.now(UTC).timestamp()
            figures.last_failover_took_s = (now_ns - failover.since_ns) / _NS
            lacking = await incomplete(self._store, failover.released)
            figures.incomplete = dict(
                Counter(policy=len(lacking.without_policy), schema=len(lacking.without_schema))
            )
            log.warning("%s", summary(failover, now_ns, lacking))
        self._measure()

    def _to_be_taken(self, broker: int) -> set[str]:
        return self.view.owned.get(broker, set()) - self._unlisted.get(broker, set())

    def _leads(self, leading: bool) -> None:
        """Record whether this controller leads, and log a change."""
        if leading != self.figures.leading:
            self.figures.leading = leading
            self._failovers.clear()
            self._foreign.clear()
            log.info("controller %d %s", self.election.controller, "leads" if leading else "no longer leads")

    def _replace(self, listing: Listing) -> None:
        self.view = ClusterView.of(listing)
        self._note()

    def _note(self) -> None:
        self.absences.note(self.view)
        absent = set(self.view.absent())
        self._unlisted = {broker: topics for broker, topics in self._unlisted.items() if broker in absent}
        self._measure()

    def _answered(self) -> None:
        self.figures.store_answered_ns = self._now_ns()

    def _measure(self) -> None:
        view, active = self.view, len(self.view.active())
        self.figures.brokers = {
            "active": active,
            "inactive": len(view.registrations) - active,
            "dead": len(self.absences),
        }
        self.figures.topics = {
            "owned": len(view.owners),
            "unassigned": len(view.unassigned),
            "owned_twice": len(view.owned_twice()),
            "unlisted": sum(map(len, self._unlisted.values())),
        }
        self.figures.strange_keys = len(view.problems)
