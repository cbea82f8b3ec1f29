"""What holders of shared limits need of the store that they share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol


class BudgetStoreError(Exception):
    """The store is away, too slow or cannot be used; the text names the remedy where there is one."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One dimension of a rate, messages or bytes, as one holder knows it."""

    name: str
    """Unique among all limits of the store."""
    rate: float
    """Tokens a second, above 0."""
    burst: float
    """Tokens that a full bucket holds, above 0."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a holder asks of one limit."""

    limit: Limit
    want: float
    """Tokens that it wants to hold until its next request; 0 if it has no use for any."""
    kept: float = 0
    """Unspent tokens of its last grant; they are part of the next one, or go back."""
    need: float = 0
    """Tokens that the operation needs which waits first; if they are more than a full bucket holds, they are
    granted once it is full, and leave a debt."""
    known: bool = False
    """Whether it has had a grant within the last half hour. A bucket that is gone starts empty then, as the
    store has lost it; stores keep buckets for an hour."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a holder has from now until its lease ends."""

    tokens: float
    holders: int
    """How many share the limit now."""
    demand: float
    """Tokens that all of them want together."""


@dataclass(frozen=True, slots=True)
class Place:
    """Something that is counted, such as a producer of a topic."""

    limit: str
    """Name of the limit that counts it."""
    identity: str
    """Tells it from others of the same limit, wherever it is attached."""
    most: int
    """How many places there are."""
    known: bool = False
    """Whether the holder has it already. It then has it again, if there is room, though the store lost it."""


class BudgetStore(Protocol):
    """Tokens and places of limits, for one of the holders that share them.

    Every method raises BudgetStoreError if the store does not answer in time; nothing is tried again.
    """

    async def reserve(self, requests: Sequence[Request]) -> Sequence[Grant]:
        """Lease tokens of several limits, and give back what is not kept.

        A lease lasts from the call, not from the answer: the store counts from a later time.

        :return: a grant for each request, in order.
        """

    async def hold(self, places: Sequence[Place]) -> Sequence[int]:
        """Take places for one lease, keep those that are held, or take them over from another holder.

        :return: for each place, in order: TAKEN, or how many others are taken so that none is left for it.
        """

    async def release(self, places: Sequence[Place]) -> None:
        """Free places, but not those that another holder has taken over."""

    async def close(self) -> None:
        """End the connections; idempotent."""


TAKEN: Final = -1
"""What `BudgetStore.hold` gives for a place that is held now."""
