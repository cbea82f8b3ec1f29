"""Plans which topic goes to which broker."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sluicegate_danube.failover.ranking import Ranking
from sluicegate_danube.failover.values import PlacementHint
from sluicegate_danube.failover.view import ClusterView


@dataclass(frozen=True, slots=True)
class Planned:
    """One topic's move."""

    topic: str
    source: int | None
    """The broker that it is taken from; None if it waits already."""
    target: int | None
    """The broker that it is given to; None if no broker may have it."""


def preview(
    view: ClusterView,
    chosen: Iterable[tuple[str, int, PlacementHint]],
    only: Collection[str] | None = None,
) -> list[Planned]:
    """The moves of chosen topics, then those of topics that wait, have no owner and an entry of known shape.

    :param chosen: topic, present owner, and what its entry would ask for.
    :param only: leave out other topics that wait.
    """
    ranking, planned = Ranking(view), []
    hints: list[tuple[str, int | None, PlacementHint]] = list(chosen)
    waiting = view.unassigned.keys() - view.owners.keys()
    wanted = sorted(waiting if only is None else waiting & set(only))
    hints += [(topic, None, hint) for topic in wanted if (hint := view.hint(topic)) is not None]
    for topic, source, hint in hints:
        target = ranking.get_next_broker(hint)
        if target is not None:
            ranking.give(target)
        planned.append(Planned(topic, source, target))
    return planned


def of_the_dead(view: ClusterView) -> list[tuple[str, int, PlacementHint]]:
    """The topics of brokers that are not registered, for `preview`; not those with a live owner besides."""
    return [
        (topic, broker, PlacementHint())
        for broker in view.absent()
        for topic in sorted(view.owned[broker])
        if view.owners[topic].keys().isdisjoint(view.registrations)
    ]
