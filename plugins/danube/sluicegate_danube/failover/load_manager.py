"""Carries out moves: takes topics from dead brokers, and gives topics without an owner to live ones."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from sluicegate.store.metadata.metadata_store import Delete, MetadataStore, Put, Unchanged
from sluicegate_danube.failover.durable import unlisted
from sluicegate_danube.failover.figures import Figures
from sluicegate_danube.failover.keys import assignment_key
from sluicegate_danube.failover.moves import Move, batches, clear, conditions_of, give, release
from sluicegate_danube.failover.preview import preview
from sluicegate_danube.failover.values import PlacementHint
from sluicegate_danube.failover.view import ClusterView


class LeadershipLostError(Exception):
    """The leader's key is no longer what this controller wrote."""


@dataclass(frozen=True)
class LoadManager:
    """Plans on a view of the cluster, and changes the store only where the view is still right.

    Each method can be interrupted: the next call does the rest.
    """

    store: MetadataStore
    """The cluster's metadata."""
    fence: Sequence[Unchanged]
    """Conditions of every change besides its own: the leader's key is as this controller wrote it."""
    figures: Figures
    on_assign: Callable[[str], None] = lambda key: None
    """Called with the key of each assignment before it is written."""

    async def delete_topic_allocation(
        self,
        view: ClusterView,
        broker: int,
        topics: Iterable[str] | None = None,
        hint: PlacementHint | None = None,
    ) -> tuple[list[str], set[str]]:
        """Take topics from a broker and enter them as unassigned.

        Topics without any durable entry are left alone.

        :param topics: all of the broker's by default.
        :param hint: what the entries ask for, of a broker that may be alive.
        :return: the topics that were taken, and those that were left alone.
        """
        owned = view.owned.get(broker, set())
        wanted = sorted(owned if topics is None else owned & set(topics))
        # Planned before the first await, as the view changes meanwhile.
        moves = [release(view, broker, topic, hint) for topic in wanted]
        alone = await unlisted(self.store, wanted)
        done = await self._commit([move for move in moves if move.topic not in alone])
        self.figures.topics_released += len(done)
        return [move.topic for move in done], alone

    async def assign(self, view: ClusterView, only: Collection[str] | None = None) -> list[Move]:
        """Assign waiting topics to brokers.

        :param only: leave others waiting.
        :return: the assignments; a topic that fits no broker keeps waiting.
        """
        moves = plan(view, only)
        for move in moves:
            self.on_assign(assignment_key(move.broker, move.topic))
        done = await self._commit(moves)
        self.figures.owners_changed += len(done)
        return done

    async def clear_up(self, view: ClusterView) -> bool:
        """Delete the unassigned entries of topics that have an owner, as another load manager may leave them.

        :return: whether there were any.
        """
        moves = []
        for topic in sorted(view.unassigned.keys() & view.owners.keys()):
            alive = [broker for broker in sorted(view.owners[topic]) if broker in view.registrations]
            # An entry with a hint is the first half of an unload: the assignment is about to go.
            if alive and view.hint(topic) == PlacementHint():
                moves.append(clear(view, alive[0], topic))
        return bool(await self._commit(moves))

    async def _commit(self, moves: Sequence[Move]) -> list[Move]:
        """Make moves, as many at once as the store takes.

        :return: those that were made.
        """
        done: list[Move] = []
        for batch in batches(moves, self.fence):
            if await self._transact(batch):
                done += batch
                continue
            await self._check_fence()
            # Something that one of them rests on has changed: the others are made one by one.
            if len(batch) > 1:
                done += [move for move in batch if await self._transact([move])]
        self.figures.conflicts += len(moves) - len(done)
        return done

    async def _transact(self, batch: Sequence[Move]) -> bool:
        changes: list[Put | Delete] = [change for move in batch for change in move.changes]
        return await self.store.transact(conditions_of(batch, self.fence), changes)

    async def _check_fence(self) -> None:
        for condition in self.fence:
            entry = await self.store.get(condition.key)
            if entry is None or entry.modified != condition.modified:
                raise LeadershipLostError(f"{condition.key} is not as this controller wrote it")


def plan(view: ClusterView, only: Collection[str] | None = None) -> list[Move]:
    """The new owner of each topic that waits, has no owner and has an entry of known shape.

    :param only: leave out others.
    """
    moves = preview(view, (), only)
    return [give(view, move.target, move.topic) for move in moves if move.target is not None]
