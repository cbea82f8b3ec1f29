"""How old is what a broker told of its subscriptions."""

_MAX_TOPICS = 10_000


class Listings:
    """When each list of subscriptions was answered last; the oldest is forgotten where there are too many.

    :param valid_ns: how long an answer counts as new. A subscription that was made at the broker itself
        within this time may still be taken for a new one.
    """

    __slots__ = ("_answered_ns", "_valid_ns")

    def __init__(self, valid_ns: int = 1_000_000_000) -> None:
        self._valid_ns = valid_ns
        self._answered_ns: dict[str, int] = {}

    def answered(self, topic: str, now_ns: int) -> None:
        """The broker has told, or failed to."""
        self._answered_ns.pop(topic, None)
        self._answered_ns[topic] = now_ns
        if len(self._answered_ns) > _MAX_TOPICS:
            del self._answered_ns[next(iter(self._answered_ns))]

    def outdated(self, topic: str) -> None:
        """What was told may hold no more."""
        self._answered_ns.pop(topic, None)

    def fresh(self, topic: str, now_ns: int) -> bool:
        """Whether an answer came, or failed to, lately."""
        answered_ns = self._answered_ns.get(topic)
        return answered_ns is not None and now_ns - answered_ns <= self._valid_ns
