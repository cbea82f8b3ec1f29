"""How far a policy is rolled out: it only observes, it applies to a canary, or to everybody."""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b

from sluicegate.model.identifiers import split_client
from sluicegate.model.operation import Operation

HOW_TO_WRITE = (
    "write 'observe', 'enforce', 'canary 10%' (of principals), 'canary 10% of clients', "
    "'canary principals alice|bob' or 'canary clients loader|web'"
)
_HASH_BYTES = 8
_BUCKETS = 1 << (8 * _HASH_BYTES)
_MODES = 1_000
_NAMES = 20_000


class ModeKind(StrEnum):
    """What a mode is, in the order of a roll-out."""

    OBSERVE = "observe"
    CANARY = "canary"
    ENFORCE = "enforce"


class Group(StrEnum):
    """What a canary is a share of, or a list of."""

    PRINCIPALS = "principals"
    CLIENTS = "clients"


@dataclass(frozen=True, slots=True)
class Mode:
    """To whom a policy applies. What would befall all others is only recorded."""

    kind: ModeKind = ModeKind.ENFORCE
    group: Group = Group.PRINCIPALS
    """For a canary."""
    percent: float = 0.0
    """Share of a canary without names."""
    names: frozenset[str] = frozenset()
    """Principals or client ids of a canary; empty for a share."""

    @property
    def enforces(self) -> bool:
        """True if it applies to everybody."""
        return self.kind is ModeKind.ENFORCE

    @property
    def observes(self) -> bool:
        """True if all that it would do is recorded only."""
        return self.kind is ModeKind.OBSERVE

    def applies_to(self, policy: str, op: Operation) -> bool:
        """Whether the policy applies to the principal or client of an operation."""
        if self.kind is not ModeKind.CANARY:
            return self.enforces
        name = op.principal if self.group is Group.PRINCIPALS else split_client(op.client)[0]
        if self.names:
            return name in self.names
        return canary_rank(policy, name) < self.percent / 100

    def own(self, name: str) -> str:
        """The name of a bucket that each kind of mode has for itself: debt of one must never hold others."""
        return name if self.enforces else f"{self.kind} {name}"

    def __str__(self) -> str:
        if self.kind is not ModeKind.CANARY:
            return str(self.kind)
        if self.names:
            return f"canary {self.group} {'|'.join(sorted(self.names))}"
        return f"canary {self.percent:g}% of {self.group}"


ENFORCE = Mode()
OBSERVE = Mode(ModeKind.OBSERVE)


@lru_cache(_NAMES)
def canary_rank(policy: str, name: str) -> float:
    """The rank of a principal or client in a policy's order of canaries, 0.0 to 1.0.

    It is the same in every gateway and after every restart, so a larger share only adds to a smaller one.
    Policies have different orders, or the same few would be the first to meet each of them.
    """
    digest = blake2b(f"{policy}\0{name}".encode(errors="surrogateescape"), digest_size=_HASH_BYTES).digest()
    return int.from_bytes(digest, "big") / _BUCKETS


@lru_cache(_MODES)
def parse_mode(text: str) -> Mode:
    """Read a mode.

    :raises ValueError: if it is none; the text says what is wrong.
    """
    words = text.split(maxsplit=1)
    if words in (["enforce"], ["observe"]):
        return ENFORCE if words == ["enforce"] else OBSERVE
    if len(words) < 2 or words[0] != ModeKind.CANARY:
        raise ValueError(f"{text!r} is no mode")
    first, _, rest = words[1].partition(" ")
    if first in tuple(Group):
        names = frozenset(name.strip() for name in rest.split("|")) - {""}
        if not names:
            raise ValueError(f"{text!r} names no {first}")
        return Mode(ModeKind.CANARY, Group(first), names=names)
    return Mode(ModeKind.CANARY, _group(text, rest), _percent(text, first))


def _percent(text: str, word: str) -> float:
    percent = percent_in(word)
    if percent is None:
        raise ValueError(f"{text!r} has no share above 0% and below 100%")
    return percent


def percent_in(word: str) -> float | None:
    """The number in `10%`; None unless it is above 0 and below 100."""
    try:
        percent = float(word.removesuffix("%")) if word.endswith("%") else 0.0
    except ValueError:
        return None
    return percent if 0 < percent < 100 else None  # NaN fails, too


def _group(text: str, rest: str) -> Group:
    if not rest:
        return Group.PRINCIPALS
    of, _, group = rest.partition(" ")
    if of != "of" or group.strip() not in tuple(Group):
        raise ValueError(f"{text!r} is a share of neither principals nor clients")
    return Group(group.strip())
