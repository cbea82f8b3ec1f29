"""Which consumer groups exist on the broker for each topic: the subscriptions that limits count."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sluicegate.engine.state import TopicState
from sluicegate.sessions.listings import Listings

_ALL = ""
"""One list has the groups of all topics."""


@dataclass(frozen=True, slots=True)
class ListGroups:
    """Asks the broker which groups have offsets for which topics."""


class GroupListing(Listings):
    """The last list and its age."""

    __slots__ = ("_asked_ns", "_groups")

    def __init__(self) -> None:
        super().__init__()
        self._groups: Mapping[str, Collection[str]] | None = None
        self._asked_ns = 0

    def fresh(self, topic: str, now_ns: int) -> bool:
        """Whether the broker responded, or failed to, within the last second; applies to all topics."""
        return super().fresh(_ALL, now_ns)

    def learned(self, groups: Mapping[str, Collection[str]] | None, asked_ns: int, now_ns: int) -> None:
        """Store a list: groups by topic, or None if the broker did not respond (the last one stays).

        :param groups: the list.
        :param asked_ns: when the broker was asked.
        :param now_ns: now.
        """
        self.answered(_ALL, now_ns)
        if groups is not None:
            self._groups = groups
            self._asked_ns = asked_ns

    def count(self, topic: str) -> int:
        """How many groups of a topic were listed."""
        return len(self._groups.get(topic, ())) if self._groups is not None else 0

    def inform(self, state: TopicState) -> None:
        """Update a topic's state; groups admitted since the broker was asked are added."""
        if self._groups is None:
            return
        state.learn_subscriptions(self._groups.get(state.topic.full, ()), self._asked_ns)
