"""The natural rate of a topic: what its producers publish while nothing holds them."""

from sluicegate.engine.bucket import SECOND_NS

ALPHA_UP = 0.30
"""Weight of a new rate above the old one: peaks are learned fast."""
ALPHA_DOWN = 0.05
"""Weight of a new rate below the old one: a pause is no reason to think that a producer wants less."""
IDLE_PER_S = 0.01
"""A natural rate that faded below a message in 100 s counts as none: there is nothing to reduce."""


def follow(natural: float, rate: float) -> float:
    """An exponentially weighted moving average that rises faster than it falls.

    :param natural: the average so far; 0 if there is none, and the rate is then taken whole: an average that
        began at 0 would take a third of the rate for natural after a restart under pressure.
    :param rate: the rate measured last.
    """
    if natural <= 0:
        return rate
    alpha = ALPHA_UP if rate > natural else ALPHA_DOWN
    return natural + alpha * (rate - natural)


class NaturalRate:
    """Learned from a topic's counters; only what was published unthrottled is learned."""

    __slots__ = ("_bytes", "_messages", "_sampled_ns", "bytes_per_s", "messages_per_s")

    def __init__(self) -> None:
        self.messages_per_s = 0.0
        """0 while nothing is known."""
        self.bytes_per_s = 0.0
        self._messages = 0
        self._bytes = 0
        self._sampled_ns: int | None = None

    @property
    def known(self) -> bool:
        """True once there is a rate to reduce."""
        return self.messages_per_s > 0 or self.bytes_per_s > 0

    def sample(self, messages: int, nbytes: int, now_ns: int, *, learn: bool) -> None:
        """Look at the counters; the first look only stores them.

        :param messages: messages published so far.
        :param nbytes: bytes published so far.
        :param now_ns: monotonic time.
        :param learn: False while the topic is throttled: the reduced rate is not natural.
        """
        before, before_messages, before_bytes = self._sampled_ns, self._messages, self._bytes
        if before is not None and now_ns <= before:
            return
        self._sampled_ns, self._messages, self._bytes = now_ns, messages, nbytes
        if before is None or not learn:
            return
        seconds = (now_ns - before) / SECOND_NS
        # A topic whose state was forgotten counts from 0 again.
        self.messages_per_s = follow(self.messages_per_s, max(0.0, (messages - before_messages) / seconds))
        self.bytes_per_s = follow(self.bytes_per_s, max(0.0, (nbytes - before_bytes) / seconds))
        if self.messages_per_s < IDLE_PER_S:
            self.messages_per_s = self.bytes_per_s = 0.0
