"""Places of one limit: identities, each held by one holder until its lease ends."""

from dataclasses import dataclass, field

from sluicegate.budgets.budget_store import TAKEN, Place


@dataclass(slots=True)
class Places:
    """Who has a place of one limit.

    :param lease_us: how long a place is held without being renewed, in us.
    :param since_us: when counting began. Holders renew the places that they had before within a lease from
        then, so until that is over no new one is given.
    """

    lease_us: int
    since_us: int
    _held: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Holder and end of each identity's place."""

    def hold(self, holder: str, place: Place, now_us: int) -> int:
        """Take a place, keep it or take it over; see `BudgetStore.hold`."""
        for identity in [each for each, (_, end_us) in self._held.items() if end_us <= now_us]:
            del self._held[identity]
        if place.identity not in self._held:
            taken = len(self._held)
            if taken >= place.most or not (place.known or now_us >= self.since_us + self.lease_us):
                return taken
        self._held[place.identity] = holder, now_us + self.lease_us
        return TAKEN

    def release(self, holder: str, identity: str) -> None:
        """Free a place unless another holder has taken it over."""
        if self._held.get(identity, ("", 0))[0] == holder:
            del self._held[identity]
