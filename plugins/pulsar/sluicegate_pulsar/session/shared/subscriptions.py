"""The subscriptions that exist on the broker for each topic, which limits on subscriptions count."""

from collections.abc import Collection
from dataclasses import dataclass

from sluicegate.engine.state import TopicState
from sluicegate.sessions.listings import Listings


@dataclass(frozen=True, slots=True)
class ListSubscriptions:
    """Asks the admin API which subscriptions a topic has."""

    topic: str
    """Full name."""


class Subscriptions(Listings):
    """The last listing of each topic, and its time."""

    __slots__ = ()

    def learned(self, state: TopicState, names: Collection[str] | None, asked_ns: int, now_ns: int) -> None:
        """Store a listing; None if the API failed, which keeps the last one.

        :param state: the topic's.
        :param names: all its subscriptions.
        :param asked_ns: when the API was asked; subscriptions admitted since then are added.
        :param now_ns: now.
        """
        self.answered(state.topic.full, now_ns)
        if names is not None:
            state.learn_subscriptions(names, asked_ns)
