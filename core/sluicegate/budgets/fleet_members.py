"""The members of a fleet: processes, each known by the names of its gateway and worker."""

from dataclasses import dataclass

from sluicegate.budgets.budget_store import Member, SameNameError


@dataclass(slots=True)
class _Entry:
    member: Member
    end_us: int
    has_joined_again: bool


class FleetMembers:
    """Who has joined within a lease.

    :param lease_us: how long one is a member without joining again, in us.
    """

    def __init__(self, lease_us: int) -> None:
        self._lease_us = lease_us
        self._entries: dict[tuple[str, str], _Entry] = {}

    def join(self, member: Member, again: bool, now_us: int) -> int:
        """Become a member, or stay one; see `BudgetStore.join`.

        :param again: whether this instance has joined before.
        """
        self._drop_ended(now_us)
        name = member.gateway, member.worker
        there = self._entries.get(name)
        self._entries[name] = _Entry(member, now_us + self._lease_us, again)
        if again and there and there.has_joined_again and there.member.instance != member.instance:
            raise SameNameError(member)
        return len(self._entries)

    def leave(self, member: Member) -> None:
        """Stop being a member, unless another instance of the same name has joined."""
        name = member.gateway, member.worker
        there = self._entries.get(name)
        if there and there.member.instance == member.instance:
            del self._entries[name]

    def all(self, now_us: int) -> list[Member]:
        """All, in order of their names."""
        self._drop_ended(now_us)
        return [self._entries[name].member for name in sorted(self._entries)]

    def _drop_ended(self, now_us: int) -> None:
        for name in [name for name, entry in self._entries.items() if entry.end_us <= now_us]:
            del self._entries[name]
