"""Limits on counts that several gateways or workers share: each attachment takes a place that all know."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from sluicegate.model import Action, Decision, Outcome, Reason

TAKEN: Final = -1
"""What `SharedPlaces.ask` gives for a place that is held now."""
ASKED: Final = -2
"""What it gives while the answer is awaited."""
LATE: Final = -3
"""What it gives if the answer has been awaited for too long."""
_ASK_AGAIN_NS = 4_000_000

Key: TypeAlias = tuple[str, bool]
"""The key of an attachment, and whether it roams: see `Operation.roams`."""


@dataclass(frozen=True, slots=True)
class SharedLimit:
    """One limit, as the gate of one topic knows it."""

    topic: str
    """Full name."""
    name: str
    """Policy, with whose limit it is and the subscription, if it has its own."""
    most: int
    """How many places there are."""
    present: Callable[[], Iterable[Key]]
    """All that have a place here."""
    renewed: Callable[[], Iterable[Key]]
    """Those of them whose places are renewed; the others' are taken again with the next one that is new."""


class SharedPlaces(Protocol):
    """The places of all shared limits, for one process."""

    def watch(self, limit: SharedLimit) -> None:
        """Take places for all that have attached, and keep them; replaces what was known of the limit."""

    def ask(self, limit: SharedLimit, key: str, roams: bool, now_ns: int) -> int:
        """Take a place for something that wants to attach; it is watched once it has.

        :param key: of the attachment.
        :param roams: as for `Operation`.
        :return: TAKEN, ASKED, LATE, or how many others have a place so that none is left.
        """

    def left(self, topic: str, key: str, subscription: str = "") -> None:
        """Something has left a topic; perhaps it remains by another connection.

        :param key: of the attachment, or the name of a subscription that was not created.
        :param subscription: of a consumer.
        """


class Asking(Decision):
    """A short delay: a place is being asked for. Gates do not record it, as no policy has decided yet."""

    __slots__ = ()


def asking(answer: int, policy: str, level: str, text: str) -> Decision:
    """The decision while an answer is awaited.

    :param answer: ASKED or LATE.
    :param text: for the client, if none comes for as long as the request may be held.
    """
    reason = Reason(policy, Outcome.PRECONDITION, text, level=level)
    kind = Asking if answer == ASKED else Decision
    return kind(Action.DELAY, (reason,), delay_ns=_ASK_AGAIN_NS)
