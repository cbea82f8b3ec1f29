"""The places of one shared limit, as one process has them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sluicegate.budgets import NOT_YET, Place
from sluicegate.engine.shared_limits import ASKED, LATE, TAKEN, Key, SharedLimit

_LATE_NS = 100_000_000
_SETTLED_NS = 1_500_000_000
"""What has a place attaches within this time: other policies delay it by up to a second."""


@dataclass(slots=True)
class Wish:
    """Something that wants to attach and waits for the store's answer."""

    since_ns: int
    seen_ns: int
    """When it asked last."""
    others: int = 0
    """How many have places, so that none was left for it; 0 if there is no answer."""


@dataclass(slots=True)
class PlaceCount:
    """Who has a place, and who wants one.

    :param name: of the limit in the store.
    :param own: tells this process's keys from equal ones elsewhere, if they do not roam.
    """

    name: str
    own: str
    limit: SharedLimit
    held: dict[str, int] = field(default_factory=dict)
    """When the lease of each identity's place ends, counted from when it was asked for."""
    wishes: dict[str, Wish] = field(default_factory=dict)
    granted: dict[str, int] = field(default_factory=dict)
    """When identities that were not seen attached yet asked last; they have places."""
    said: int = 0
    """How many places there are, as the store was told last."""
    standing: tuple[int, int] | None = None
    """How many had a place here and how many were free, as the store told last; None if it never did."""
    has_changed: bool = True
    """Whether something may have attached or left without this being told."""

    def identity(self, key: str, roams: bool) -> str:
        """What the store knows an attachment by."""
        return key if roams else f"{key} @{self.own}"

    def ask(self, identity: str, now_ns: int) -> int:
        """What the store has answered; see `SharedPlaces.ask`."""
        if self.held.get(identity, 0) > now_ns:
            self.granted[identity] = now_ns
            self.wishes.pop(identity, None)
            return TAKEN
        wish = self.wishes.get(identity)
        if wish is None:
            wish = self.wishes[identity] = Wish(now_ns, now_ns)
            self.has_changed |= self.limit.renewed is not self.limit.present
        if wish.others:
            del self.wishes[identity]
            return wish.others
        wish.seen_ns = now_ns
        return ASKED if now_ns - wish.since_ns < _LATE_NS else LATE

    def left(self, key: str) -> None:
        """Something has left, or does not attach after all."""
        self.granted.pop(key, None)
        self.granted.pop(self.identity(key, roams=False), None)
        self.has_changed = True

    @property
    def is_waiting(self) -> bool:
        """Whether something waits for an answer."""
        return any(not wish.others for wish in self.wishes.values())

    def is_unused(self) -> bool:
        """Whether nothing has a place or wants one."""
        return not (self.held or self.wishes or any(True for _ in self.limit.present()))

    # -- what to say to the store ----------------------------------------------------------------------

    def compare(self, now_ns: int) -> tuple[list[str], list[str]]:
        """Compare places with what is attached.

        :return: what is attached without a place, and what has a place without being attached.
        """
        self.has_changed = False
        self.held = {identity: end_ns for identity, end_ns in self.held.items() if end_ns > now_ns}
        self.wishes = {
            identity: wish for identity, wish in self.wishes.items() if now_ns - wish.seen_ns < _SETTLED_NS
        }
        present = self._identities(self.limit.present())
        self.granted = {
            identity: asked_ns
            for identity, asked_ns in self.granted.items()
            if identity not in present and now_ns - asked_ns < _SETTLED_NS
        }
        kept = present if self.is_waiting else self._identities(self.limit.renewed())
        lacking = [identity for identity in kept if identity not in self.held]
        gone = [each for each in self.held if each not in present and each not in self.granted]
        return lacking, gone

    def renewals(self) -> list[Place]:
        """The places to renew."""
        renewed = self._identities(self.limit.renewed()) | dict.fromkeys(self.granted)
        return [self.kept_place(identity) for identity in self.held if identity in renewed]

    def freeing(self, identities: Sequence[str]) -> list[Place]:
        """Give up places, unless something has come back to them since they were compared."""
        freed = [identity for identity in identities if identity not in self.granted]
        for identity in freed:  # before the store is told, so that nothing attaches without asking it
            self.held.pop(identity, None)
        return [self.kept_place(identity) for identity in freed]

    def wanted(self) -> list[Place]:
        """The places that are waited for."""
        return [
            Place(self.name, identity, self.limit.most)
            for identity, wish in self.wishes.items()
            if not wish.others
        ]

    def kept_place(self, identity: str) -> Place:
        """The place of what has one already."""
        return Place(self.name, identity, self.limit.most, known=True)

    # -- what it has answered --------------------------------------------------------------------------

    def counted(self, taken: int) -> None:
        """The store has told how many places are taken."""
        self.standing = len(self.held), max(0, self.limit.most - taken)

    def share(self, holders: int) -> int:
        """How many may have a place here without the store: with what each has, no more than there are.

        :param holders: how many share what is free.
        """
        if self.standing is None:
            return self.limit.most // holders
        had, free = self.standing
        return min(self.limit.most, had + free // holders)

    def answered(self, place: Place, others: int, end_ns: int) -> None:
        """The store has answered.

        :param others: as for `BudgetStore.hold`.
        :param end_ns: when the lease ends, if there is one.
        """
        identity, self.said = place.identity, place.most
        wish = self.wishes.get(identity)
        if others == TAKEN:
            self.held[identity] = end_ns
            if wish is not None:
                self.granted[identity] = wish.seen_ns
                del self.wishes[identity]
        else:
            self.held.pop(identity, None)
            if wish is not None and others != NOT_YET:
                wish.others = others

    def _identities(self, keys: Iterable[Key]) -> dict[str, None]:
        return {self.identity(key, roams): None for key, roams in keys}
