"""Counts that other gateways or workers count, too."""

from collections.abc import Callable, Iterable

from sluicegate.engine import texts
from sluicegate.engine.scoping import Sharers
from sluicegate.engine.shared_limits import TAKEN, Key, SharedLimit, asking
from sluicegate.engine.state import TopicState
from sluicegate.model import Decision, EffectivePolicies


class SharedCount:
    """One limit of a topic. Where it is not shared, every place is free.

    :param state: the topic's state.
    :param policies: of those whose limit it is.
    :param policy: its name.
    :param sharers: those whose limit it is.
    :param present: gives all that have a place here.
    :param renewed: gives those whose places are renewed; all of them if left out.
    :param subscription: whose own limit it is; empty for the topic's.
    """

    __slots__ = ("_level", "_limit", "_places", "_text")

    def __init__(
        self,
        state: TopicState,
        policies: EffectivePolicies,
        policy: str,
        sharers: Sharers,
        present: Callable[[], Iterable[Key]],
        renewed: Callable[[], Iterable[Key]] | None = None,
        subscription: str = "",
    ) -> None:
        name = "|".join(part for part in (policy, sharers.owner, subscription) if part)
        most = int(policies.number(policy))
        self._places = state.broker.places
        self._limit = SharedLimit(state.topic.full, name, most, present, renewed or present)
        self._level = policies.level(policy)
        self._text = texts.place_not_known(policy, state.topic.full)
        if self._places is not None:
            self._places.watch(self._limit)

    def ask(self, key: str, roams: bool, now_ns: int) -> int:
        """Take a place; see `SharedPlaces.ask`."""
        return TAKEN if self._places is None else self._places.ask(self._limit, key, roams, now_ns)

    def decision(self, answer: int) -> Decision | None:
        """What an answer means that does not refuse."""
        policy = self._limit.name.partition("|")[0]
        return None if answer == TAKEN else asking(answer, policy, self._level, self._text)
