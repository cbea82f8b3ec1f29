"""A token bucket with two dimensions, messages and bytes, charged together or not at all.

The bucket starts full, refills continuously and holds `burst_seconds` worth of rate. A need larger than the
bucket passes when the bucket is full, and leaves a debt: otherwise it could never pass. Hence in
every window of T seconds: admitted <= rate * T + max(burst, largest need).

The balance is refilled on every call, never only when it runs short: a lazy refill would let through up
to two bursts at once after an idle time.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import inf

SECOND_NS = 1_000_000_000


def shown(value: float) -> str:
    """A value or a limit as error texts show it: with one decimal place below 100, unless that is 0."""
    return f"{value:.{value < 100:d}f}".removesuffix(".0")


@lru_cache(maxsize=1024)
def _rate_and_capacity(per_s: float, burst_seconds: float) -> tuple[float, float]:
    """Tokens per ns, and how many a full bucket holds.

    An unlimited dimension holds infinitely many, which needs no branch when taking. Cached not for speed here
    but there: topics with equal limits share these numbers, and hundreds of topics stay in the CPU's cache.
    """
    return per_s / SECOND_NS, per_s * burst_seconds or inf


@dataclass(frozen=True, slots=True)
class Shortage:
    """The dimension that lacks tokens for an operation."""

    by_bytes: bool
    current: float
    """The rate if the need had passed, per second."""
    limit: float
    """The rate of the bucket, per second."""

    def __str__(self) -> str:
        """The sentence of an error text that gives both rates."""
        unit = "bytes/s" if self.by_bytes else "messages/s"
        return f"Current: {shown(self.current)} {unit}, Limit: {shown(self.limit)} {unit}."


class DualBucket:
    """A token bucket for messages and bytes that charges both or neither.

    No function is called and no loop iterates between reading the balance and writing it. CPython switches
    threads only there, so the limit holds without a lock.

    :param messages_per_s: messages a second; 0 leaves the dimension unlimited.
    :param bytes_per_s: bytes a second; 0 leaves the dimension unlimited.
    :param burst_seconds: seconds worth of rate that a full bucket holds; above 0.
    :param now_ns: monotonic time at which the bucket is full.
    """

    __slots__ = (
        "burst_seconds",
        "byte_balance",
        "byte_capacity",
        "byte_rate",
        "bytes_per_s",
        "message_balance",
        "message_capacity",
        "message_rate",
        "messages_per_s",
        "updated_ns",
    )

    def __init__(self, messages_per_s: float, bytes_per_s: float, burst_seconds: float, now_ns: int) -> None:
        self.message_balance = inf
        self.byte_balance = inf
        self.updated_ns = now_ns
        self._configure(messages_per_s, bytes_per_s, burst_seconds)

    def _configure(self, messages_per_s: float, bytes_per_s: float, burst_seconds: float) -> None:
        if messages_per_s < 0 or bytes_per_s < 0 or burst_seconds <= 0:
            raise ValueError(
                f"expected rates of 0 or more and a burst above 0, got {messages_per_s!r} messages/s, "
                f"{bytes_per_s!r} bytes/s, {burst_seconds!r} s"
            )
        self.messages_per_s = messages_per_s
        self.bytes_per_s = bytes_per_s
        self.burst_seconds = burst_seconds
        self.message_rate, self.message_capacity = _rate_and_capacity(messages_per_s, burst_seconds)
        self.byte_rate, self.byte_capacity = _rate_and_capacity(bytes_per_s, burst_seconds)
        self.message_balance = min(self.message_balance, self.message_capacity) if messages_per_s else inf
        self.byte_balance = min(self.byte_balance, self.byte_capacity) if bytes_per_s else inf

    def balance(self, now_ns: int) -> tuple[float, float]:
        """Messages and bytes that are left; negative in debt, infinite where unlimited."""
        elapsed = now_ns - self.updated_ns
        return (
            min(self.message_balance + elapsed * self.message_rate, self.message_capacity),
            min(self.byte_balance + elapsed * self.byte_rate, self.byte_capacity),
        )

    def take(self, messages: int, nbytes: int, now_ns: int) -> int:
        """Charge both dimensions if both have enough, or neither.

        :return: 0 if charged, else the ns until it would pass.
        """
        elapsed = now_ns - self.updated_ns
        have_messages = self.message_balance + elapsed * self.message_rate
        message_capacity = self.message_capacity
        if have_messages > message_capacity:
            have_messages = message_capacity
        have_bytes = self.byte_balance + elapsed * self.byte_rate
        byte_capacity = self.byte_capacity
        if have_bytes > byte_capacity:
            have_bytes = byte_capacity
        left_messages = have_messages - messages
        left_bytes = have_bytes - nbytes
        if (left_messages < 0.0 and have_messages < message_capacity) or (
            left_bytes < 0.0 and have_bytes < byte_capacity
        ):
            return self.wait(messages, nbytes, now_ns)
        self.message_balance = left_messages
        self.byte_balance = left_bytes
        self.updated_ns = now_ns
        return 0

    def has(self, messages: int, nbytes: int, now_ns: int) -> bool:
        """Whether `take` would charge; nothing is charged."""
        elapsed = now_ns - self.updated_ns
        have = self.message_balance + elapsed * self.message_rate
        if have < messages and have < self.message_capacity:
            return False
        have = self.byte_balance + elapsed * self.byte_rate
        return not (have < nbytes and have < self.byte_capacity)

    def charge(self, messages: int, nbytes: int, now_ns: int) -> None:
        """Charge both dimensions unconditionally; the balance may become negative."""
        elapsed = now_ns - self.updated_ns
        have_messages = self.message_balance + elapsed * self.message_rate
        if have_messages > self.message_capacity:
            have_messages = self.message_capacity
        have_bytes = self.byte_balance + elapsed * self.byte_rate
        if have_bytes > self.byte_capacity:
            have_bytes = self.byte_capacity
        self.message_balance = have_messages - messages
        self.byte_balance = have_bytes - nbytes
        self.updated_ns = now_ns

    def wait(
        self, messages: int, nbytes: int, now_ns: int, messages_ahead: int = 0, bytes_ahead: int = 0
    ) -> int:
        """How long until a need would pass after everything ahead of it is charged.

        :return: ns; 0 if it would pass now. Nothing is charged.
        """
        have_messages, have_bytes = self.balance(now_ns)
        wait = 0  # below, half a ns more than enough: floats may round down
        short = messages_ahead + min(messages, self.message_capacity) - have_messages
        if short > 0:
            wait = int(short / self.message_rate + 1.5)
        short = bytes_ahead + min(nbytes, self.byte_capacity) - have_bytes
        if short > 0:
            wait = max(wait, int(short / self.byte_rate + 1.5))
        return wait

    def shortage(self, messages: int, nbytes: int, now_ns: int) -> Shortage:
        """The shortage of the dimension that a need waits for longest."""
        have_messages, have_bytes = self.balance(now_ns)
        if not self.messages_per_s or self.wait(0, nbytes, now_ns) > self.wait(messages, 0, now_ns):
            used = self.byte_capacity - have_bytes + nbytes
            return Shortage(True, used / self.burst_seconds, self.bytes_per_s)
        used = self.message_capacity - have_messages + messages
        return Shortage(False, used / self.burst_seconds, self.messages_per_s)

    @property
    def awaits_grant(self) -> bool:
        """Whether what is short here may come from a shared limit that is being asked; not a shortage yet."""
        return False

    def fill(self, message_rate: float, byte_rate: float, now_ns: int) -> None:
        """Refill for the time since the last use at rates that are no higher than its own.

        :param message_rate: messages per ns.
        :param byte_rate: bytes per ns.
        """
        elapsed = now_ns - self.updated_ns
        if elapsed > 0:
            self.message_balance += elapsed * min(self.message_rate, message_rate)
            self.byte_balance += elapsed * min(self.byte_rate, byte_rate)
            self.updated_ns = now_ns

    def bound(self, messages: float, nbytes: float) -> None:
        """Limit the balance to these."""
        self.message_balance = min(self.message_balance, messages)
        self.byte_balance = min(self.byte_balance, nbytes)

    def reconfigure(
        self, messages_per_s: float, bytes_per_s: float, burst_seconds: float, now_ns: int
    ) -> None:
        """Change the rates. Balance or debt stays, as far as the new bucket holds it."""
        if (messages_per_s, bytes_per_s, burst_seconds) == (
            self.messages_per_s,
            self.bytes_per_s,
            self.burst_seconds,
        ):
            return
        if now_ns > self.updated_ns:
            self.message_balance, self.byte_balance = self.balance(now_ns)
            self.updated_ns = now_ns
        self._configure(messages_per_s, bytes_per_s, burst_seconds)

    def is_full(self, now_ns: int) -> bool:
        """True if nothing that was charged is missing: a new bucket would do the same."""
        have_messages, have_bytes = self.balance(now_ns)
        return have_messages >= self.message_capacity and have_bytes >= self.byte_capacity
