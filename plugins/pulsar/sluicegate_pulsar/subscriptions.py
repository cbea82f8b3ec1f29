"""Which subscriptions exist on the broker for each topic: what limits on subscriptions count."""

from collections.abc import Collection
from dataclasses import dataclass

from sluicegate.engine.state import TopicState

_FRESH_NS = 1_000_000_000
"""A subscription made at the broker itself within this time may still be taken for a new one."""
_MAX_TOPICS = 10_000


@dataclass(frozen=True, slots=True)
class ListSubscriptions:
    """The question to the admin API: which subscriptions a topic has."""

    topic: str
    """Full name."""


class Subscriptions:
    """When each topic's list was asked for and answered last."""

    def __init__(self) -> None:
        self._answered: dict[str, int] = {}

    def fresh(self, topic: str, now_ns: int) -> bool:
        """Whether the API answered, or failed to, within the last second."""
        answered_ns = self._answered.get(topic)
        return answered_ns is not None and now_ns - answered_ns < _FRESH_NS

    def learned(self, state: TopicState, found: Collection[str] | None, asked_ns: int, now_ns: int) -> None:
        """Take over an answer; None if the API could not tell, so that what was known before stays.

        :param state: the topic's.
        :param found: all its subscriptions.
        :param asked_ns: when the API was asked; subscriptions let in since then exist in any case.
        :param now_ns: now.
        """
        self._answered.pop(state.topic.full, None)
        self._answered[state.topic.full] = now_ns
        if len(self._answered) > _MAX_TOPICS:
            self._answered.pop(next(iter(self._answered)))
        if found is not None:
            state.learn_subscriptions(found, asked_ns)
