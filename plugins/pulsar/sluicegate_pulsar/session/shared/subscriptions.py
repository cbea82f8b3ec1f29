"""Which subscriptions exist on the broker for each topic: what limits on subscriptions count."""

from collections.abc import Collection
from dataclasses import dataclass

from sluicegate.engine.state import TopicState
from sluicegate.sessions.listings import Listings


@dataclass(frozen=True, slots=True)
class ListSubscriptions:
    """The question to the admin API: which subscriptions a topic has."""

    topic: str
    """Full name."""


class Subscriptions(Listings):
    """When each topic's list was answered last, and what it told."""

    __slots__ = ()

    def learned(self, state: TopicState, found: Collection[str] | None, asked_ns: int, now_ns: int) -> None:
        """Take over an answer; None if the API could not tell, so that what was known before stays.

        :param state: the topic's.
        :param found: all its subscriptions.
        :param asked_ns: when the API was asked; subscriptions let in since then exist in any case.
        :param now_ns: now.
        """
        self.answered(state.topic.full, now_ns)
        if found is not None:
            state.learn_subscriptions(found, asked_ns)
