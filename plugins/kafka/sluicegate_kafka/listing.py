"""Which consumer groups exist on the broker for each topic: the subscriptions that limits count."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sluicegate.engine.state import TopicState

_FRESH_NS = 1_000_000_000
"""A group made at the broker itself within this time may still be taken for a new one."""


@dataclass(frozen=True, slots=True)
class ListGroups:
    """The question to the broker: which groups have offsets for which topics."""


class GroupListing:
    """The last answer and its age."""

    def __init__(self) -> None:
        self._groups: Mapping[str, Collection[str]] | None = None
        self._asked_ns = 0
        self._answered_ns: int | None = None

    def fresh(self, now_ns: int) -> bool:
        """Whether the broker answered, or failed to, within the last second."""
        return self._answered_ns is not None and now_ns - self._answered_ns < _FRESH_NS

    def learned(self, groups: Mapping[str, Collection[str]] | None, asked_ns: int, now_ns: int) -> None:
        """Keep an answer: groups by topic, or None if the broker could not tell (the last answer stays).

        :param groups: the answer.
        :param asked_ns: when the broker was asked.
        :param now_ns: now.
        """
        self._answered_ns = now_ns
        if groups is not None:
            self._groups = groups
            self._asked_ns = asked_ns

    def inform(self, state: TopicState) -> None:
        """Tell a topic's state what exists; groups let in since the broker was asked exist in any case."""
        if self._groups is None:
            return
        state.learn_subscriptions(self._groups.get(state.topic.full, ()), self._asked_ns)
