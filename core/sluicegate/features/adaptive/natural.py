"""The natural rate of a topic: the rate of its producers without throttling."""

from typing import TypeAlias

from sluicegate.engine.bucket import SECOND_NS

ALPHA_UP = 0.30
"""Weight of a new rate above the average: peaks are learned quickly."""
ALPHA_DOWN = 0.05
"""Weight of a new rate below the average: a pause does not mean that a producer needs less."""
IDLE_PER_S = 0.01
"""A lower natural rate counts as none: there is nothing to reduce."""

Rates: TypeAlias = tuple[float, float]
"""Messages and bytes a second."""


def follow(natural: float, rate: float) -> float:
    """Update an exponentially weighted moving average that rises faster than it falls.

    :param natural: the average so far; 0 if there is none. The result is then the rate itself: an average
        that started at 0 would be a third of the rate after a restart under pressure.
    :param rate: the last measured rate.
    """
    if natural <= 0:
        return rate
    alpha = ALPHA_UP if rate > natural else ALPHA_DOWN
    return natural + alpha * (rate - natural)


class NaturalRate:
    """Learns the natural rate from a topic's counters while the topic is not throttled."""

    __slots__ = ("_bytes", "_messages", "_sampled_ns", "bytes_per_s", "messages_per_s")

    def __init__(self) -> None:
        self.messages_per_s = 0.0
        """0 while unknown."""
        self.bytes_per_s = 0.0
        self._messages = 0
        self._bytes = 0
        self._sampled_ns: int | None = None

    @property
    def known(self) -> bool:
        """True once there is a rate to reduce."""
        return self.messages_per_s > 0 or self.bytes_per_s > 0

    def sample(self, messages: int, nbytes: int, now_ns: int, *, learn: bool) -> Rates | None:
        """Sample the counters; the first sample only stores them.

        :param messages: messages published so far.
        :param nbytes: bytes published so far.
        :param now_ns: monotonic time.
        :param learn: False while the topic is throttled, because the reduced rate is not natural.
        :return: what passed since the last sample; None if there is none before.
        """
        before, before_messages, before_bytes = self._sampled_ns, self._messages, self._bytes
        if before is not None and now_ns <= before:
            return None
        self._sampled_ns, self._messages, self._bytes = now_ns, messages, nbytes
        if before is None:
            return None
        seconds = (now_ns - before) / SECOND_NS
        # The counters of a topic restart at 0 if its state was evicted.
        rates = max(0.0, (messages - before_messages) / seconds), max(0.0, (nbytes - before_bytes) / seconds)
        if learn:
            self.learn(*rates)
        return rates

    def learn(self, messages_per_s: float, bytes_per_s: float) -> None:
        """Follow measured rates."""
        self.messages_per_s = follow(self.messages_per_s, messages_per_s)
        self.bytes_per_s = follow(self.bytes_per_s, bytes_per_s)
        if self.messages_per_s < IDLE_PER_S:
            self.set(0.0, 0.0)

    def set(self, messages_per_s: float, bytes_per_s: float) -> None:
        """Take over what another has learned; 0 for nothing."""
        self.messages_per_s, self.bytes_per_s = messages_per_s, bytes_per_s
