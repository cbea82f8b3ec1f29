"""What holders of shared limits need of the store that they share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol


class BudgetStoreError(Exception):
    """The store is away, too slow or cannot be used; the text names the remedy where there is one."""


class SameNameError(BudgetStoreError):
    """Another process has the same name in the fleet."""

    def __init__(self, member: "Member") -> None:
        super().__init__(
            f"another gateway of this fleet is named {member.gateway!r} too: "
            "give each its own name by `budgets.gateway`, or each fleet its own by `budgets.name`"
        )


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
class Grant:
    """What a holder has until its lease ends, which lasts from when it sent the request."""

    tokens: float
    generation: int
    """The store's generation that the grant belongs to: leases since some time."""
    holders: int
    """How many share the limit now."""
    demand: float
    """Tokens a second that all of them want together."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a holder asks of one limit.

    After a call that failed, a holder says neither `kept` nor `last`, as it does not know what came of them.
    It may go on to spend `renewed` of that call until the lease ends that it had before.
    """

    limit: Limit
    want: float
    """Tokens that it wants to hold until its next request; 0 if it has no use for any. It may get more while
    the bucket holds plenty, as a reserve."""
    seconds: float
    """How long these are to last: the time to its next request, above 0."""
    kept: float = 0
    """Unspent tokens of its last grant; they are part of the next one, or go back."""
    last: Grant | None = None
    """Its last grant, which ends by this request; None if it has none, or its answer was lost."""
    need: float = 0
    """Tokens that the operation needs which waits first; if they are more than a full bucket holds, they are
    granted once it is full, and leave a debt."""
    known: bool = False
    """Whether it has had a grant within the last half hour. A bucket that is gone starts empty then, as the
    store has lost it; stores keep buckets for an hour."""
    away: float = 0
    """Of the time since it last asked for this limit (since its start, if never), the seconds in which it
    could not reach the store."""

    @property
    def renewed(self) -> float:
        """The part of `kept` that is in the next grant for sure, so that it can be spent meanwhile.

        The rest goes back. Who needs more than a full bucket gives all back, so that it can become full.
        """
        return 0 if self.need > self.limit.burst else min(self.kept, self.want)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a limit stands."""

    limit: Limit
    """With the lowest rate and burst that its holders know."""
    level: float
    """Tokens that nobody has leased; negative while the bucket is in debt."""
    leased: float
    """Tokens of leases that may still be spent."""
    holders: int
    """How many share it."""
    demand: float
    """Tokens a second that all of them want together."""


@dataclass(frozen=True, slots=True)
class Member:
    """A process of the fleet that shares the store."""

    gateway: str
    """Name of its gateway, which no other one of the fleet has."""
    worker: str
    """Which of the gateway's workers it is: its broker and index, as `BROKER/INDEX`."""
    instance: str
    """Chosen at random when the process starts."""
    info: str = ""
    """What it tells others of itself: JSON of at most some KiB."""


@dataclass(frozen=True, slots=True)
class Place:
    """Something that is counted, such as a producer of a topic."""

    limit: str
    """Name of the limit that counts it."""
    identity: str
    """Tells it from others of the same limit, wherever it is attached."""
    most: int
    """How many places there are, as the holder knows it."""
    known: bool = False
    """Whether it is attached already. Then it has a place, be it beyond the limit or lost by the store."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a holder learns of a task that one of all does."""

    leads: bool
    """Whether it is this one, until its lease of the task ends."""
    findings: str
    """What came of it last; empty if nothing has."""
    age: float
    """How long ago that was told, in seconds."""
    reports: Mapping[str, str]
    """What the others told within a lease, by their names; empty for who does not lead."""


class BudgetStore(Protocol):
    """Tokens and places of limits, and the members of the fleet, for one of the holders that share them.

    Every method raises BudgetStoreError if the store does not answer in time; nothing is tried again.
    """

    async def reserve(self, requests: Sequence[Request]) -> Sequence[Grant]:
        """Lease tokens of several limits, and give back what is not kept.

        A lease lasts from the call, not from the answer: the store counts from a later time.

        :return: a grant for each request, in order.
        """

    async def hold(self, places: Sequence[Place]) -> Sequence[int]:
        """Take places for one lease, or keep those that are held.

        Several holders may have one place: it is free when each has released it, or its lease has ended. The
        lowest `most` counts that a holder of the limit has said last, within a lease.

        :return: for each place, in order: TAKEN, NOT_YET, or how many are taken so that none is left for it.
        """

    async def release(self, places: Sequence[Place]) -> None:
        """Free places, but not those that another holder has as well."""

    async def taken(self, limits: Sequence[str]) -> Sequence[int]:
        """How many places of each limit are taken, in the order in which the limits are named."""

    async def join(self, member: Member) -> int:
        """Become a member of the fleet, or stay one; without another call this ends when a place would.

        :return: how many members the fleet has.
        :raises SameNameError: if a process that has the same names of gateway and worker has joined again
            since this one first joined; this one is a member nevertheless.
        """

    async def leave(self) -> None:
        """Stop being a member, and leading tasks."""

    async def members(self) -> Sequence[Member]:
        """All members of the fleet, in order of their names."""

    async def attend(self, task: str, report: str, lease: float) -> Turn:
        """Report what this holder sees for a task, and take the lead if no other holder has it.

        :param task: its name, unique in the fleet.
        :param report: what it tells; empty for nothing.
        :param lease: how long it leads, and how long this is told, without another call; in seconds.
        :raises ValueError: if more than `MOST_TOLD` is told.
        """

    async def publish(self, task: str, findings: str) -> bool:
        """Say what came of a task.

        :return: False if another holder leads it by now; then nothing is changed.
        :raises ValueError: if more than `MOST_TOLD` was found.
        """

    async def standings(self) -> Sequence[Standing]:
        """How all limits of the fleet stand, in order of their names.

        It is for people, and may cost the store much.
        """

    async def close(self) -> None:
        """End the connections; idempotent."""


TAKEN: Final = -1
"""What `BudgetStore.hold` gives for a place that is held now."""
NOT_YET: Final = -2
"""What it gives for one to ask for again: the store has begun within a lease, and may not know all places."""
OFF_PATH_S: Final = 1.0
"""How long a call about a task may take, in seconds, as no message waits for it."""
MOST_TOLD: Final = 256 * 1024
"""Largest text that is told of a task, or found by it, in bytes of UTF-8."""


def check_size(task: str, text: str) -> None:
    """Refuse a text of a task that is too long for a store.

    :raises ValueError: if it is larger than `MOST_TOLD`.
    """
    size = len(text.encode())
    if size > MOST_TOLD:
        raise ValueError(f"task {task} tells {size} bytes, expected at most {MOST_TOLD}")
