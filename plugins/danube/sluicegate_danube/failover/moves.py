"""The two halves of a move as transactions: release a topic of its owner, give it to another broker.

Each topic's half is atomic, and only if nothing that it rests on has changed since it was
read. So a topic is at every revision either assigned to one broker or entered as unassigned. Moves of several
topics share a transaction, up to the store's bound.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sluicegate.store.metadata.metadata_store import TRANSACTION_LIMIT, Delete, Entry, Put, Unchanged
from sluicegate_danube.failover.keys import (
    EMPTY,
    assignment_key,
    registration_key,
    state_key,
    unassigned_key,
)
from sluicegate_danube.failover.values import PlacementHint, hint_value
from sluicegate_danube.failover.view import ClusterView


@dataclass(frozen=True, slots=True)
class Move:
    """One half of a topic's move, or what clears up after a foreign one."""

    topic: str
    broker: int
    """The broker that the topic is taken from, or given to."""
    conditions: tuple[Unchanged, ...]
    changes: tuple[Put | Delete, ...]


def release(view: ClusterView, broker: int, topic: str, hint: PlacementHint | None = None) -> Move:
    """Take a topic from its owner and enter it as unassigned.

    :param hint: what the entry asks for. Unless it excludes the broker, which may be alive then, the broker
        must be dead still when the change is made.
    """
    entry = view.owners[topic][broker]
    waiting = view.unassigned.get(topic)
    elsewhere = [other for other in view.owners[topic] if other in view.registrations and other != broker]
    conditions = [Unchanged(entry.key, entry.modified), _as_known(unassigned_key(topic), waiting)]
    if hint is None or hint.excluded != broker:
        conditions.append(Unchanged(registration_key(broker), 0))
    conditions += [_as_known(assignment_key(other, topic), view.owners[topic][other]) for other in elsewhere]
    changes: list[Put | Delete] = [Delete(entry.key)]
    if waiting is None and not elsewhere:
        changes.append(Put(unassigned_key(topic), hint_value(hint) if hint is not None else EMPTY))
    return Move(topic, broker, tuple(conditions), tuple(changes))


def give(view: ClusterView, broker: int, topic: str) -> Move:
    """Assign an unassigned topic to a broker that is registered and active."""
    conditions = (
        _as_known(registration_key(broker), view.registrations.get(broker)),
        _as_known(state_key(broker), view.states.get(broker)),
        _as_known(unassigned_key(topic), view.unassigned.get(topic)),
        Unchanged(assignment_key(broker, topic), 0),
    )
    changes = (Put(assignment_key(broker, topic), EMPTY), Delete(unassigned_key(topic)))
    return Move(topic, broker, conditions, changes)


def clear(view: ClusterView, broker: int, topic: str) -> Move:
    """Delete the unassigned entry of a topic that has a live owner already.

    Danube's own load manager assigns first and deletes the entry afterwards: if it dies between, both stay.
    """
    conditions = (
        _as_known(registration_key(broker), view.registrations.get(broker)),
        _as_known(assignment_key(broker, topic), view.owners[topic][broker]),
        _as_known(unassigned_key(topic), view.unassigned.get(topic)),
    )
    return Move(topic, broker, conditions, (Delete(unassigned_key(topic)),))


def batches(
    moves: Iterable[Move], fence: Sequence[Unchanged], most: int = TRANSACTION_LIMIT
) -> Iterator[list[Move]]:
    """Moves by transaction, as many in each as its bound allows.

    :param fence: conditions of each transaction besides its moves' own.
    """
    batch: list[Move] = []
    conditions: set[Unchanged] = set(fence)
    changes = 0
    for move in moves:
        grown = conditions | set(move.conditions)
        if batch and (len(grown) > most or changes + len(move.changes) > most):
            yield batch
            batch, grown, changes = [], set(fence) | set(move.conditions), 0
        batch.append(move)
        conditions, changes = grown, changes + len(move.changes)
    if batch:
        yield batch


def conditions_of(batch: Sequence[Move], fence: Sequence[Unchanged]) -> list[Unchanged]:
    """What a transaction of several moves rests on, each condition once."""
    return list(dict.fromkeys([*fence, *(condition for move in batch for condition in move.conditions)]))


def _as_known(key: str, entry: Entry | None) -> Unchanged:
    return Unchanged(key, entry.modified if entry is not None else 0)
