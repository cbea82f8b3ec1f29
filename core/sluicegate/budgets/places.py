"""Places of one limit: identities, each held by one or more holders until their leases end."""

from dataclasses import dataclass, field

from sluicegate.budgets.budget_store import NOT_YET, TAKEN, Place


@dataclass(slots=True)
class Places:
    """Who has a place of one limit.

    :param lease_us: how long a place is held without being renewed, in us.
    :param since_us: when counting began. Holders renew the places that they had before within a lease from
        then, so until that is over no new one is given.
    """

    lease_us: int
    since_us: int
    _ends: dict[str, dict[str, int]] = field(default_factory=dict)
    """When each identity's place ends, by holder."""
    _most: dict[str, tuple[int, int]] = field(default_factory=dict)
    """How many places there are as each holder said last, and when that is forgotten."""
    _dropped_us: int = -1
    """When what had ended was dropped last."""

    def hold(self, holder: str, place: Place, now_us: int) -> int:
        """Take a place or keep it; see `BudgetStore.hold`."""
        self._drop_ended(now_us)
        end_us = now_us + self.lease_us
        self._most[holder] = place.most, end_us
        if place.identity not in self._ends and not place.known:
            if len(self._ends) >= min(most for most, _ in self._most.values()):
                return len(self._ends)
            if now_us < self.since_us + self.lease_us:
                return NOT_YET
        self._ends.setdefault(place.identity, {})[holder] = end_us
        return TAKEN

    def taken(self, now_us: int) -> int:
        """How many are taken; see `BudgetStore.taken`."""
        self._drop_ended(now_us)
        return len(self._ends)

    def release(self, holder: str, identity: str) -> None:
        """Free a place unless another holder has it as well."""
        ends = self._ends.get(identity, {})
        ends.pop(holder, None)
        if not ends:
            self._ends.pop(identity, None)

    def _drop_ended(self, now_us: int) -> None:
        if now_us == self._dropped_us:  # many places come in one call
            return
        self._dropped_us = now_us
        self._most = {holder: said for holder, said in self._most.items() if said[1] > now_us}
        for identity, ends in tuple(self._ends.items()):
            for holder in [holder for holder, end_us in ends.items() if end_us <= now_us]:
                self.release(holder, identity)
