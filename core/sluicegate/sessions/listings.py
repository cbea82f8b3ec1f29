"""The age of each list of subscriptions."""

_MAX_TOPICS = 10_000


class Listings:
    """When the broker last gave each list of subscriptions; beyond a bound the oldest is evicted.

    :param valid_ns: how long a list counts as fresh. A subscription that was created at the broker itself
        within this time may still count as a new one.
    """

    __slots__ = ("_listed_ns", "_valid_ns")

    def __init__(self, valid_ns: int = 1_000_000_000) -> None:
        self._valid_ns = valid_ns
        self._listed_ns: dict[str, int] = {}

    def answered(self, topic: str, now_ns: int) -> None:
        """The broker has responded, or has failed to."""
        self._listed_ns.pop(topic, None)
        self._listed_ns[topic] = now_ns
        if len(self._listed_ns) > _MAX_TOPICS:
            del self._listed_ns[next(iter(self._listed_ns))]

    def outdated(self, topic: str) -> None:
        """The last list is no longer valid."""
        self._listed_ns.pop(topic, None)

    def fresh(self, topic: str, now_ns: int) -> bool:
        """Whether the broker responded, or failed to, a short time ago."""
        listed_ns = self._listed_ns.get(topic)
        return listed_ns is not None and now_ns - listed_ns <= self._valid_ns
