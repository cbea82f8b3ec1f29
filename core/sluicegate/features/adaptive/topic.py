"""One topic that this gateway throttles."""

from functools import partial

from sluicegate.engine.buckets import LOCAL
from sluicegate.engine.state import TopicState
from sluicegate.features.adaptive.evaluated import Change, EvaluatedTopic
from sluicegate.features.adaptive.fleet_rates import Passed
from sluicegate.features.adaptive.limiter import AdaptiveLimiter
from sluicegate.model import EffectivePolicies


class ThrottledTopic(EvaluatedTopic):
    """A topic with its limiter, which alone belongs to the thread that owns the gates.

    :param state: the topic's state; only its counters are read.
    :param policies: the topic's policies.
    """

    __slots__ = ("_was_active", "applied", "limiter", "state")

    def __init__(self, state: TopicState, policies: EffectivePolicies) -> None:
        super().__init__(state.topic.all)
        self.state = state
        self.limiter = AdaptiveLimiter(state, policies)
        self.applied: tuple[int, int, str, bool] | None = None
        """The limiter's last rates and reason, and whether its bucket is this worker's own; None while it is
        released."""
        self._was_active = False

    @property
    def is_shared(self) -> bool:
        """Whether its limit is one for a whole fleet."""
        return self.state.buckets is not LOCAL

    def measured(self, now_ns: int) -> Passed | None:
        """What passed here since the last call; None for the first."""
        was_active, self._was_active = self._was_active, self.active
        rates = self.natural.sample(
            self.state.allowed_messages, self.state.allowed_bytes, now_ns, learn=False
        )
        return None if rates is None else Passed(*rates, not (was_active or self.active))

    def _learn(self, passed: Passed | None, now_ns: int, *, learn: bool) -> None:
        if passed is None:
            state = self.state
            self.natural.sample(state.allowed_messages, state.allowed_bytes, now_ns, learn=learn)
        else:
            super()._learn(passed, now_ns, learn=learn)

    def change(self, now_ns: int) -> Change | None:
        """What brings its limiter to what was decided; None if there is nothing to do."""
        memory, backlog = self.memory_and_backlog
        why = f"memory pressure {memory:.2f}, backlog pressure {backlog:.2f}"
        target = (self.messages_per_s, self.bytes_per_s, why, self.is_own) if self.active else None
        if target == self.applied:
            return None
        self.applied = target
        if target is None:
            return partial(self.limiter.release, now_ns)
        natural = (self.natural.messages_per_s, self.natural.bytes_per_s)
        return partial(self.limiter.limit, *target[:2], natural, why, now_ns, alone=self.is_own)
