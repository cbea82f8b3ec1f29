"""What was learned of topics from calls; the oldest is forgotten where there are too many."""

from typing import TypeVar

from sluicegate.sessions.listings import Listings

_MAX_TOPICS = 10_000


class _NoListings(Listings):
    """For doors that cannot list subscriptions: no list is ever missing."""

    def fresh(self, topic: str, now_ns: int) -> bool:
        return True


Value = TypeVar("Value")


class Topics:
    """Bounded memory of topics: when their subscriptions were listed, and whether their dispatch is reliable.

    :param list_valid_ns: how long a list of a topic's subscriptions stays valid; None without lists.
    """

    def __init__(self, list_valid_ns: int | None) -> None:
        self.are_listed = list_valid_ns is not None
        """Whether someone lists subscriptions."""
        self.listings = _NoListings() if list_valid_ns is None else Listings(list_valid_ns)
        self._reliable: dict[str, None] = {}
        self._unreliable: dict[str, None] = {}

    def is_reliable(self, topic: str) -> bool:
        """Whether a topic is reliable; True if that is unknown."""
        return topic not in self._unreliable

    def learn_reliable(self, topic: str, reliable: bool) -> None:
        """Take it that what was promised once holds: a client that says less later must not lose messages."""
        if reliable:
            self._unreliable.pop(topic, None)
            _add(self._reliable, topic, None)
        elif topic not in self._reliable:
            _add(self._unreliable, topic, None)


def _add(known: dict[str, Value], topic: str, value: Value) -> None:
    known[topic] = value
    if len(known) > _MAX_TOPICS:
        del known[next(iter(known))]
