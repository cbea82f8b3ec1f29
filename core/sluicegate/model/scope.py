"""Whom policies are for, where they are not for everybody."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sluicegate.model.glob import Glob

_Rank: TypeAlias = tuple[int, bool, int]


@dataclass(frozen=True, slots=True)
class Scope:
    """Names or patterns of those whom policies are for; of each list that is not empty, one must match.

    The empty scope stands for everybody.
    """

    principals: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    """Client ids, without addresses."""
    groups: tuple[str, ...] = ()
    """Subscriptions or consumer groups. An operation without one does not match."""

    def __bool__(self) -> bool:
        return bool(self.principals or self.clients or self.groups)

    def __str__(self) -> str:
        return " and ".join(f"{kind} {', '.join(names)}" for kind, names in self.as_json().items())

    @property
    def rank(self) -> _Rank:
        """How specific it is: more lists, then no patterns, then a longer pattern (the shortest counts)."""
        lengths = [len(name) for name in (*self.principals, *self.clients, *self.groups) if "*" in name]
        return len(self.as_json()), not lengths, min(lengths, default=0)

    def matches(self, principal: str, client_id: str, group: str) -> bool:
        """Whether an operation of this principal, client id and subscription is in it."""
        pairs = ((self.principals, principal), (self.clients, client_id), (self.groups, group))
        return all(_is_named(name, patterns) for patterns, name in pairs if patterns)

    def as_json(self) -> Mapping[str, Sequence[str]]:
        """The lists that are not empty, as `for` of the file has them."""
        lists = {"principals": self.principals, "clients": self.clients, "groups": self.groups}
        return {kind: list(names) for kind, names in lists.items() if names}


EVERYBODY = Scope()


def _is_named(name: str, patterns: Sequence[str]) -> bool:
    return bool(name) and any(Glob(pattern).matches(name) for pattern in patterns)
