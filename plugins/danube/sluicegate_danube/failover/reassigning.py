"""Moves topics at an operator's word, with or without a controller that runs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sluicegate.store.metadata.metadata_store import MetadataStore, Unchanged
from sluicegate_danube.failover import keys
from sluicegate_danube.failover.election import Election
from sluicegate_danube.failover.figures import Figures
from sluicegate_danube.failover.load_manager import LoadManager
from sluicegate_danube.failover.preview import Planned, of_the_dead, preview
from sluicegate_danube.failover.values import PlacementHint
from sluicegate_danube.failover.view import ClusterView


class CannotReassignError(Exception):
    """The cluster does not have what was asked for."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to move; by default the topics of dead brokers and waiting ones."""

    topics: Collection[str] = ()
    source: int | None = None
    """All topics of this broker, or those of `topics` that it owns."""
    target: int | None = None


@dataclass(slots=True)
class Reassigned:
    """The result of a reassignment."""

    moved: list[Planned] = field(default_factory=list)
    """Topics that have a new owner now."""
    entered: list[str] = field(default_factory=list)
    """Topics that wait for the leader to assign them."""
    left: list[str] = field(default_factory=list)
    """Topics without durable entries, which stay as they are."""


def choose(view: ClusterView, wanted: Wanted) -> list[tuple[str, int, PlacementHint]]:
    """The topics to move: name, present owner, and what the entry is to ask for.

    :raises CannotReassignError: if a topic or broker does not exist, or the target accepts no topics.
    """
    if wanted.target is not None and not view.is_active(wanted.target):
        raise CannotReassignError(f"broker {wanted.target} is not active: name one that is")
    if wanted.source is None and not wanted.topics:
        return [(topic, owner, PlacementHint(target=wanted.target)) for topic, owner, _ in of_the_dead(view)]
    if wanted.source is not None and wanted.source not in view.owned:
        raise CannotReassignError(f"broker {wanted.source} owns no topic")
    topics = wanted.topics or view.owned[wanted.source or 0]
    chosen = []
    for topic in sorted(topics):
        owners = view.owners.get(topic, {})
        if not owners or (wanted.source is not None and wanted.source not in owners):
            whose = "has no owner" if wanted.source is None else f"is not owned by broker {wanted.source}"
            raise CannotReassignError(f"topic {topic!r} {whose}")
        owner = wanted.source if wanted.source is not None else min(owners)
        chosen.append((topic, owner, PlacementHint(excluded=owner, target=wanted.target)))
    return chosen


async def dry_run(store: MetadataStore, wanted: Wanted) -> list[Planned]:
    """What `reassign` would do now.

    :raises CannotReassignError: as it would.
    :raises StoreError: if the store cannot be used.
    """
    view = ClusterView.of(await store.list(keys.CLUSTER))
    chosen = choose(view, wanted)
    every = preview(view, chosen)
    return every if wanted == Wanted(target=wanted.target) else every[: len(chosen)]


async def reassign(store: MetadataStore, wanted: Wanted, election: Election) -> Reassigned:
    """Take topics from their owners, and give them to others.

    Where a load manager leads, it assigns what this enters as unassigned. Where none does, this becomes the
    leader for as long as it takes.

    :raises CannotReassignError: if the cluster does not have what is asked for.
    :raises StoreError: if the store cannot be used.
    """
    view = ClusterView.of(await store.list(keys.CLUSTER))
    chosen = choose(view, wanted)
    if view.leader is not None:
        return await _release(store, view, chosen, ())
    await election.campaign()
    try:
        fence = election.fence
        done = await _release(store, view, chosen, [fence] if fence is not None else ())
        if fence is None:
            return done
        view = ClusterView.of(await store.list(keys.CLUSTER))
        everything = wanted == Wanted(target=wanted.target)
        manager = LoadManager(store, [fence], Figures())
        moves = await manager.assign(view, None if everything else done.entered)
    finally:
        await election.resign()
    sources = {topic: owner for topic, owner, _ in chosen}
    done.moved = [Planned(move.topic, sources.get(move.topic), move.broker) for move in moves]
    given = {move.topic for move in moves}
    done.entered = [topic for topic in done.entered if topic not in given]
    return done


async def _release(
    store: MetadataStore,
    view: ClusterView,
    chosen: Sequence[tuple[str, int, PlacementHint]],
    fence: Sequence[Unchanged],
) -> Reassigned:
    manager, done = LoadManager(store, fence, Figures()), Reassigned()
    for owner, hint in sorted({(owner, hint) for _, owner, hint in chosen}, key=lambda each: each[0]):
        topics = [topic for topic, whose, _ in chosen if whose == owner]
        asked = hint if hint != PlacementHint() else None
        released, unlisted = await manager.delete_topic_allocation(view, owner, topics, asked)
        done.entered += released
        done.left += sorted(unlisted)
    return done
