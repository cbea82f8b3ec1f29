"""What was learned of topics from calls; the oldest is forgotten where there are too many."""

from typing import TypeVar

_MAX_TOPICS = 10_000
Value = TypeVar("Value")


class Topics:
    """Bounded memory of topics: when their subscriptions were listed, and whether their dispatch is reliable.

    :param list_valid_ns: how long a list of a topic's subscriptions counts as new; None if nobody lists them.
    """

    __slots__ = ("_list_valid_ns", "_listed_ns", "_reliable", "_unreliable")

    def __init__(self, list_valid_ns: int | None) -> None:
        self._list_valid_ns = list_valid_ns
        self._listed_ns: dict[str, int] = {}
        self._reliable: dict[str, None] = {}
        self._unreliable: dict[str, None] = {}

    @property
    def are_listed(self) -> bool:
        """Whether someone lists subscriptions."""
        return self._list_valid_ns is not None

    def listed(self, topic: str, now_ns: int) -> None:
        """A topic's subscriptions were told, or could not be."""
        self._listed_ns.pop(topic, None)
        _add(self._listed_ns, topic, now_ns)

    def outdated(self, topic: str) -> None:
        """What was told of a topic's subscriptions may hold no more."""
        self._listed_ns.pop(topic, None)

    def fresh(self, topic: str, now_ns: int) -> bool:
        """Whether a topic's subscriptions were listed lately."""
        listed_ns = self._listed_ns.get(topic)
        return (
            listed_ns is not None
            and self._list_valid_ns is not None
            and now_ns - listed_ns <= self._list_valid_ns
        )

    def is_reliable(self, topic: str) -> bool:
        """Whether a topic's messages must all arrive; True if nobody has said."""
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
