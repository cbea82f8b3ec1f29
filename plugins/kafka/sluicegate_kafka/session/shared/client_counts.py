"""Counts equal clients by their connections.

Clients at their defaults share one client id. But a client library keeps at most one connection to a node for
producing and one for fetching: among connections of equal principal, host and client id the k-th to one node
is that of client number k, and there are as many clients as such connections to any one node. So a producer
of three leaders is one, and two producers of one leader are two.
"""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from sluicegate_kafka.session.requests.connection import Identity


class Numbered(Protocol):
    """The counted identity of one connection on one topic."""

    def renumber(self, number: int) -> None:
        """Change the number."""


Occupant = TypeVar("Occupant", bound=Numbered)


def name_of(kind: str, identity: Identity, number: int) -> str:
    """The counted identity of client number `number` of those that are equal.

    :param kind: `client` for producing, `fetch` for fetching.
    """
    # The number stands first: a client id may end in anything.
    return f"{kind} {'' if number == 1 else f'#{number} '}{'/'.join(identity)}"


class Places(Generic[Occupant]):
    """Places of equal clients on each topic and node, numbered from 1 without gaps."""

    def __init__(self) -> None:
        self._taken: dict[tuple[Identity, str], dict[str, list[Occupant]]] = {}

    def at(self, identity: Identity, topic: str, node: str) -> Sequence[Occupant]:
        """The holders of the places at a node, by number."""
        return self._taken.get((identity, topic), {}).get(node, ())

    def take(self, identity: Identity, topic: str, node: str, occupant: Occupant) -> int:
        """Give the next place at a node; returns its number."""
        places = self._taken.setdefault((identity, topic), {}).setdefault(node, [])
        places.append(occupant)
        return len(places)

    def leave(self, identity: Identity, topic: str, node: str, occupant: Occupant) -> None:
        """Release a place; the last one at that node moves into the gap.

        Otherwise a client that has the last place here and a lower one elsewhere would count twice.
        """
        nodes = self._taken.get((identity, topic), {})
        places = nodes.get(node, [])
        if occupant not in places:
            return
        at = places.index(occupant)
        last = places.pop()
        if last is not occupant:
            places[at] = last
            last.renumber(at + 1)
        if not places:
            del nodes[node]
        if not nodes:
            self._taken.pop((identity, topic), None)
