"""A bucket of a limit that several gateways or workers share: it holds what was leased for it.

It does not refill. A lender deposits tokens, which are void once their lease has ended: so a process that was
stopped in between spends none of them. An operation passes only if the balance covers it, also one that is
larger than a full bucket, for which the lender asks as a whole.
"""

from math import inf
from typing import Protocol

from sluicegate.engine.bucket import SECOND_NS, DualBucket
from sluicegate.engine.wait_queue import RETRY_NS, WaitQueue


class Lender(Protocol):
    """Asks for tokens of buckets, never while a message waits for the call."""

    answer_ns: int
    """When its next answer can have come."""

    def ask(self, bucket: "LeasedBucket", now_ns: int) -> None:
        """Take note that a bucket is short."""


class LeasedBucket(DualBucket):
    """Tokens of a shared limit; see `DualBucket`, of which checks notice no difference.

    :param lender: asks for the tokens.
    :param name: of the limit, the same at all gateways.
    """

    __slots__ = (
        "away_told_ns",
        "bytes_per_s_lately",
        "bytes_short",
        "bytes_spent",
        "ends_ns",
        "granted_ns",
        "is_active",
        "is_stinted",
        "largest_bytes",
        "largest_messages",
        "lender",
        "messages_per_s_lately",
        "messages_short",
        "messages_spent",
        "name",
        "queue",
    )

    def __init__(
        self,
        lender: Lender,
        name: str,
        messages_per_s: float,
        bytes_per_s: float,
        burst_seconds: float,
        now_ns: int,
    ) -> None:
        self.lender = lender
        self.name = name
        self.queue: WaitQueue | None = None
        """Those who wait for it."""
        self.ends_ns = 0
        """When what it holds is void."""
        self.granted_ns: int | None = None
        """When it last had a grant."""
        self.away_told_ns = 0
        """Of the time without the store, what the store knows."""
        self.is_active = False
        """Whether the lender renews what it holds."""
        self.is_stinted = False
        """Whether the last answer gave less than was wanted."""
        self.messages_per_s_lately = self.bytes_per_s_lately = 0.0
        """What it was granted lately."""
        self.forget_use()
        super().__init__(messages_per_s, bytes_per_s, burst_seconds, now_ns)

    def forget_use(self) -> None:
        """Begin to count anew what is spent, what is short, and the largest need."""
        self.messages_spent = self.bytes_spent = 0
        self.messages_short = self.bytes_short = 0.0
        self.largest_messages = self.largest_bytes = 0

    def _configure(self, messages_per_s: float, bytes_per_s: float, burst_seconds: float) -> None:
        messages, nbytes = self.message_balance, self.byte_balance
        super()._configure(messages_per_s, bytes_per_s, burst_seconds)
        if messages_per_s and messages == inf:
            self.message_balance = 0.0
        if bytes_per_s and nbytes == inf:
            self.byte_balance = 0.0

    def balance(self, now_ns: int) -> tuple[float, float]:
        """What it holds; only debts once the lease has ended."""
        messages, nbytes = self.message_balance, self.byte_balance
        if now_ns >= self.ends_ns:
            if messages > 0.0 and self.message_rate:
                messages = 0.0
            if nbytes > 0.0 and self.byte_rate:
                nbytes = 0.0
        return messages, nbytes

    def take(self, messages: int, nbytes: int, now_ns: int) -> int:
        """Charge both dimensions if both have enough, or neither; see `DualBucket.take`."""
        # <hot> for every message under a shared limit
        if now_ns < self.ends_ns:
            left_messages = self.message_balance - messages
            left_bytes = self.byte_balance - nbytes
            if left_messages >= 0.0 and left_bytes >= 0.0:
                self.message_balance = left_messages
                self.byte_balance = left_bytes
                self.messages_spent += messages
                self.bytes_spent += nbytes
                return 0
        return self.wait(messages, nbytes, now_ns)

    def has(self, messages: int, nbytes: int, now_ns: int) -> bool:
        """Whether `take` would charge."""
        have_messages, have_bytes = self.balance(now_ns)
        return have_messages >= messages and have_bytes >= nbytes

    def charge(self, messages: int, nbytes: int, now_ns: int) -> None:
        """Charge both dimensions unconditionally; what was not leased is a debt."""
        have_messages, have_bytes = self.balance(now_ns)
        self.message_balance = have_messages - messages
        self.byte_balance = have_bytes - nbytes
        self.messages_spent += messages
        self.bytes_spent += nbytes
        if self.message_balance < 0.0 or self.byte_balance < 0.0:
            self.lender.ask(self, now_ns)

    def wait(
        self, messages: int, nbytes: int, now_ns: int, messages_ahead: int = 0, bytes_ahead: int = 0
    ) -> int:
        """How long until a need may pass: until the next answer, or longer for those behind others."""
        have_messages, have_bytes = self.balance(now_ns)
        short_messages = messages_ahead + messages - have_messages
        short_bytes = bytes_ahead + nbytes - have_bytes
        if short_messages <= 0 and short_bytes <= 0:
            return 0
        self.messages_short = max(self.messages_short, short_messages)
        self.bytes_short = max(self.bytes_short, short_bytes)
        if not (messages_ahead or bytes_ahead):
            self.largest_messages = max(self.largest_messages, messages)
            self.largest_bytes = max(self.largest_bytes, nbytes)
        self.lender.ask(self, now_ns)
        wait = max(RETRY_NS, self.lender.answer_ns - now_ns)
        if not self.is_stinted:
            return wait  # the next answer may bring enough for all of them
        if messages_ahead and short_messages > 0 and self.messages_per_s_lately:
            wait = max(wait, int(short_messages / self.messages_per_s_lately * SECOND_NS))
        if bytes_ahead and short_bytes > 0 and self.bytes_per_s_lately:
            wait = max(wait, int(short_bytes / self.bytes_per_s_lately * SECOND_NS))
        return wait

    @property
    def awaits_grant(self) -> bool:
        """Whether the store may have more than it was asked for until now."""
        return not self.is_stinted

    def fill(self, message_rate: float, byte_rate: float, now_ns: int) -> None:
        """Nothing: the store refills the limit at the lowest rate that any gateway knows."""

    def bound(self, messages: float, nbytes: float) -> None:
        """Nothing: the store has a bucket of its own for what a factor leaves of a limit."""

    def reconfigure(
        self, messages_per_s: float, bytes_per_s: float, burst_seconds: float, now_ns: int
    ) -> None:
        """Change the rates; what is leased stays, as far as the new bucket holds it."""
        self.updated_ns = now_ns
        super().reconfigure(messages_per_s, bytes_per_s, burst_seconds, now_ns)

    def is_full(self, now_ns: int) -> bool:
        """Whether it can be dropped: it owes nothing, and nothing is leased."""
        return not self.is_active and min(self.balance(now_ns)) >= 0
