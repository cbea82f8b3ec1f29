"""Moves topics at an operator's word, with or without a controller that runs."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from sluicegate.store.metadata.metadata_store import MetadataStore
from sluicegate_danube.failover import keys
from sluicegate_danube.failover.election import Election, ForeignLoadManagerError
from sluicegate_danube.failover.figures import Figures
from sluicegate_danube.failover.keeping import Sleep, kept
from sluicegate_danube.failover.load_manager import LeadershipLostError, LoadManager
from sluicegate_danube.failover.preview import Planned, of_the_dead, preview
from sluicegate_danube.failover.values import PlacementHint
from sluicegate_danube.failover.view import ClusterView

Chosen: TypeAlias = "tuple[str, int, PlacementHint]"
"""A topic to move, its present owner, and what the entry is to ask for."""
_AT_ONCE = 250
"""Topics that are taken from their owners before they are given to others; each part lists the cluster."""
_TRIES = 3
"""How often to go on after the lead was lost."""


class CannotReassignError(Exception):
    """The cluster does not have what was asked for, or the lead was lost too often."""


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


def choose(view: ClusterView, wanted: Wanted) -> list[Chosen]:
    """The topics to move.

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
    for topic in sorted(set(topics)):
        owners = view.owners.get(topic, {})
        if not owners or (wanted.source is not None and wanted.source not in owners):
            whose = "has no owner" if wanted.source is None else f"is not owned by broker {wanted.source}"
            raise CannotReassignError(f"topic {topic!r} {whose}")
        owner = wanted.source if wanted.source is not None else min(owners)
        if owner != wanted.target:  # it would be taken off, and given back
            chosen.append((topic, owner, PlacementHint(excluded=owner, target=wanted.target)))
    return chosen


async def dry_run(store: MetadataStore, wanted: Wanted) -> list[Planned]:
    """What `reassign` would do now.

    :raises CannotReassignError: as it would.
    :raises StoreError: if the store cannot be used.
    """
    view = await _seen(store)
    chosen = choose(view, wanted)
    every = preview(view, chosen)
    return every if wanted == Wanted(target=wanted.target) else every[: len(chosen)]


async def reassign(
    store: MetadataStore, wanted: Wanted, election: Election, sleep: Sleep = asyncio.sleep
) -> Reassigned:
    """Take topics from their owners, and give them to others.

    Where a load manager leads, it assigns what this enters as unassigned. Where none does, this becomes the
    leader for as long as it takes, and renews its lease meanwhile.

    :raises CannotReassignError: if that is not in the cluster, or the lead was lost too often.
    :raises StoreError: if the store cannot be used.
    """
    before = await _seen(store)
    chosen = choose(before, wanted)
    if before.leader is not None:
        released, alone = await _release(LoadManager(store, (), Figures()), before, chosen)
        return Reassigned([], released, sorted(alone))
    everything = wanted == Wanted(target=wanted.target)
    async with kept(election, sleep):
        try:
            for _ in range(_TRIES):
                with suppress(LeadershipLostError):
                    left = await _lead(store, election, chosen, everything=everything)
                    return _result(before, await _seen(store), chosen, left)
                await election.resign()
        finally:
            await election.resign()
    raise CannotReassignError(_interrupted(await _seen(store), chosen))


async def _lead(
    store: MetadataStore, election: Election, chosen: Sequence[Chosen], *, everything: bool
) -> set[str]:
    """Move topics as the leader, some at a time, so that few wait if this is interrupted.

    If another one leads by now, it assigns them.

    :param everything: assign all others that wait as well.
    :return: topics without durable entries, which are left alone.
    :raises LeadershipLostError: if this does not lead, or no longer; calling it again does the rest.
    """
    with suppress(ForeignLoadManagerError):
        await election.campaign()
    fence = election.fence
    if fence is None:
        await election.resign()
    view = await _seen(store)
    if fence is None and view.leader is None:
        raise LeadershipLostError("no controller leads")
    manager = LoadManager(store, [fence] if fence is not None else (), Figures())
    left: set[str] = set()
    for at in range(0, len(chosen), _AT_ONCE):
        part = chosen[at : at + _AT_ONCE]
        left |= (await _release(manager, view, part))[1]
        view = await _seen(store)
        if fence is not None:
            await manager.assign(view, {topic for topic, _, _ in part})
    if everything and fence is not None:
        await manager.assign(await _seen(store))
    return left


async def _release(
    manager: LoadManager, view: ClusterView, chosen: Sequence[Chosen]
) -> tuple[list[str], set[str]]:
    """Enter topics as unassigned: those that are, and those that are left alone."""
    entered: list[str] = []
    left: set[str] = set()
    for owner, hint in sorted({(owner, hint) for _, owner, hint in chosen}, key=lambda each: each[0]):
        topics = [topic for topic, whose, _ in chosen if whose == owner]
        asked = hint if hint != PlacementHint() else None
        released, unlisted = await manager.delete_topic_allocation(view, owner, topics, asked)
        entered += released
        left |= unlisted
    return entered, left


def _result(
    before: ClusterView, after: ClusterView, chosen: Iterable[Chosen], left: Collection[str]
) -> Reassigned:
    """What has become of chosen topics and of those that waited."""
    done = Reassigned(left=sorted(left))
    sources = {topic: owner for topic, owner, _ in chosen}
    for topic in [*sources, *sorted(before.unassigned.keys() - sources.keys())]:
        known = before.owners.get(topic, {})
        owners = after.owners.get(topic, {})
        given = [broker for broker, entry in owners.items() if known.get(broker) != entry]
        if given:
            done.moved.append(Planned(topic, sources.get(topic), given[0]))
        elif topic in sources and topic in after.unassigned and topic not in after.owners:
            done.entered.append(topic)
    return done


def _interrupted(view: ClusterView, chosen: Iterable[Chosen]) -> str:
    waiting = sum(topic in view.unassigned and topic not in view.owners for topic, _, _ in chosen)
    return (
        f"this command lost the lead {_TRIES} times, as the store was slow or another one took it: {waiting} "
        "of the topics wait without an owner, the others have one. Run `reassign` without --from and --topic "
        "to assign those that wait, then this once more"
    )


async def _seen(store: MetadataStore) -> ClusterView:
    return ClusterView.of(await store.list(keys.CLUSTER))
