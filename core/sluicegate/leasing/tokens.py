"""Buckets of shared limits of one process, and what is asked of the store for them.

Each request says what is left of the last grant. What goes back leaves the bucket before the request does,
so it cannot be spent; what an answer brings can be spent until a lease after the request was sent. After a
call that failed, nothing of it is certain: the bucket keeps what it has until the former lease ends.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sluicegate.budgets import Grant, Limit, Request
from sluicegate.engine.bucket import SECOND_NS, DualBucket
from sluicegate.engine.leased_bucket import LeasedBucket
from sluicegate.engine.wait_queue import WaitQueue
from sluicegate.leasing.demand import Asked, Side

_BUSY_NS: Final = 50_000_000
"""Time between two requests of a limit of which less is granted than is wanted."""
_CALM_NS: Final = 100_000_000
"""The same where all get what they want, so that no share has to be corrected."""
_CALM_PARTS: Final = 10
"""Of a full bucket that are spent at most until then, at the limit's rate."""
_QUIET_NS: Final = 200_000_000
"""The same where all holders together want at most one of so many parts of a full bucket until then."""
_QUIET_PARTS: Final = 40
_SHORTEST_NS: Final = 20_000_000
_LIMITS_AT_ONCE: Final = 20
"""With more limits than these, the time between two calls grows."""
_ANSWER_NS: Final = 2_000_000
"""How long an answer takes, as a rule."""
_KNOWN_NS: Final = 1800 * SECOND_NS
_ALMOST: Final = 1e-6


@dataclass(slots=True, eq=False)
class _Account:
    """A bucket that is in use."""

    bucket: LeasedBucket
    sides: tuple[Side, Side] = field(default_factory=lambda: (Side(by_bytes=False), Side(by_bytes=True)))
    asked_ns: int = 0
    is_urgent: bool = True
    is_quiet: bool = False
    """Whether all holders want next to nothing of it."""
    alone_ns: int = 0
    """Until when it got its share without the store; 0 if it does not."""


@dataclass(slots=True)
class Call:
    """Requests of one call."""

    sent_ns: int
    away_ns: int
    asked: list[tuple[_Account, list[Asked]]] = field(default_factory=list)

    @property
    def requests(self) -> Sequence[Request]:
        """All requests in order."""
        return [each.request for _, of_bucket in self.asked for each in of_bucket]


class LeasedBuckets:
    """Makes buckets of shared limits; it is their `Lender`, and `Buckets` of a broker's state.

    :param broker: name of the broker, the same at all gateways.
    :param lease_ns: how long leased tokens can be spent.
    :param wake: called when something is to be asked before `due_ns`.
    """

    def __init__(self, broker: str, lease_ns: int, wake: Callable[[], None] = lambda: None) -> None:
        self.wake = wake
        self.answer_ns = 0
        """When the next answer can have come."""
        self._broker = broker
        self._lease_ns = lease_ns
        self._accounts: dict[LeasedBucket, _Account] = {}
        self._next_ns = 0
        self._urgent_ns: int | None = None

    def __len__(self) -> int:
        return len(self._accounts)

    def bucket(
        self, name: str, messages_per_s: float, bytes_per_s: float, burst_seconds: float, now_ns: int
    ) -> LeasedBucket:
        """A bucket of a shared limit; it asks for nothing before it is used."""
        whole = f"{self._broker}|{name}"
        return LeasedBucket(self, whole, messages_per_s, bytes_per_s, burst_seconds, now_ns)

    def queue(
        self, name: str, messages_per_s: float, bytes_per_s: float, burst_seconds: float, now_ns: int
    ) -> WaitQueue:
        """The queue of such a bucket."""
        bucket = self.bucket(name, messages_per_s, bytes_per_s, burst_seconds, now_ns)
        bucket.queue = WaitQueue(bucket)
        return bucket.queue

    def ask(self, bucket: LeasedBucket, now_ns: int) -> None:
        """Ask for a bucket before its time, if the store may have more for it."""
        account = self._accounts.get(bucket)
        if account is None:
            account = self._accounts[bucket] = _Account(bucket)
            bucket.is_active, bucket.is_stinted = True, False
        elif bucket.is_stinted or account.is_urgent:
            return
        account.is_urgent = True
        at_ns = max(now_ns, account.asked_ns + _SHORTEST_NS) if account.asked_ns else now_ns
        if len(self._accounts) == 1:
            self._next_ns = at_ns
        if self._urgent_ns is None or at_ns < self._urgent_ns:
            self._urgent_ns = at_ns
            self.answer_ns = at_ns + _ANSWER_NS
            self.wake()

    def busiest(self, most: int, now_ns: int) -> dict[str, tuple[float, float]]:
        """The limits of which most was granted lately: messages and bytes a second, by name."""
        used = {
            bucket.name: (account.sides[0].gained_per_s(now_ns), account.sides[1].gained_per_s(now_ns))
            for bucket, account in self._accounts.items()
        }
        return dict(sorted(used.items(), key=lambda item: sum(item[1]), reverse=True)[:most])

    @property
    def due_ns(self) -> int | None:
        """When the next call is due; None if nothing is in use."""
        if not self._accounts:
            return None
        return self._next_ns if self._urgent_ns is None else min(self._next_ns, self._urgent_ns)

    def begin(self, now_ns: int, away_ns: int = 0) -> Call:
        """The requests of a call that is sent now: of all buckets if their time has come, else urgent ones.

        :param away_ns: how long limits were spent from without the store, since this process began.
        """
        self._urgent_ns = None
        period_ns = self._period_ns()
        accounts = list(self._accounts.values())
        if now_ns < self._next_ns:
            accounts = [each for each in accounts if each.is_urgent]
        else:
            self._next_ns = now_ns + period_ns
        self.answer_ns = now_ns + _ANSWER_NS
        call = Call(now_ns, away_ns)
        for account in accounts:
            call.asked.append((account, self._asked(account, call, period_ns)))
        return call

    def end(self, call: Call, grants: Sequence[Grant] | None, now_ns: int) -> None:
        """Take what a call brought.

        :param grants: one for each request; None if the call failed.
        """
        rest = iter(grants or ())
        for account, asked in call.asked:
            account.is_urgent = False
            account.asked_ns = call.sent_ns
            if grants is None:
                account.bucket.is_stinted = True
                for each in asked:
                    each.side.last = None
            else:
                self._deposit(account, asked, rest, call, now_ns)
        self._next_ns = min(self._next_ns, call.sent_ns + self._period_ns())
        if self._urgent_ns is None:
            self.answer_ns = self._next_ns + _ANSWER_NS

    def share_out(self, share: float, since_ns: int, now_ns: int) -> None:
        """Go on without the store: a share of each limit, from an empty bucket.

        :param share: 0 for nothing, inf for no limit.
        :param since_ns: since when no lease holds any more.
        """
        for account in self._accounts.values():
            bucket = account.bucket
            elapsed_ns = now_ns - max(account.alone_ns or now_ns, since_ns)
            account.alone_ns = now_ns
            messages, nbytes = bucket.balance(now_ns)
            if bucket.messages_per_s and share:
                most = max(bucket.message_capacity * share, bucket.largest_messages)
                bucket.message_balance = min(messages + _refill(bucket.message_rate, share, elapsed_ns), most)
            if bucket.bytes_per_s and share:
                most = max(bucket.byte_capacity * share, bucket.largest_bytes)
                bucket.byte_balance = min(nbytes + _refill(bucket.byte_rate, share, elapsed_ns), most)
            if share:
                bucket.ends_ns = now_ns + self._lease_ns

    def _period_ns(self) -> int:
        crowd = max(1.0, len(self._accounts) / _LIMITS_AT_ONCE)
        burst_s = min((each.burst_seconds for each in self._accounts), default=1.0)
        usual_ns = max(int(_BUSY_NS * crowd), self._calm_ns(burst_s))
        busy_ns = max(_SHORTEST_NS, min(usual_ns, int(burst_s * SECOND_NS)))
        return min(busy_ns, self._lease_ns // 2)

    def _calm_ns(self, burst_s: float) -> int:
        """How long nothing needs to be asked; 0 if some limit is short."""
        if any(each.is_stinted for each in self._accounts):
            return 0
        if all(each.is_quiet for each in self._accounts.values()):
            return _QUIET_NS
        # A small bucket is soon spent, and shows sooner that it is short.
        return min(_CALM_NS, int(burst_s * SECOND_NS) // _CALM_PARTS)

    def _asked(self, account: _Account, call: Call, period_ns: int) -> list[Asked]:
        """The requests of one bucket, from which what they give back is taken."""
        bucket, now_ns = account.bucket, call.sent_ns
        balances = bucket.balance(now_ns)
        backlog = bucket.queue.backlog() if bucket.queue is not None else (0, 0)
        uses = (
            (bucket.messages_per_s, bucket.messages_spent, bucket.messages_short, bucket.largest_messages),
            (bucket.bytes_per_s, bucket.bytes_spent, bucket.bytes_short, bucket.largest_bytes),
        )
        asked = []
        for side, have, (rate, spent, short, need), waiting in zip(
            account.sides, balances, uses, backlog, strict=True
        ):
            if not rate:
                side.last = None
                continue
            limit = Limit(f"{bucket.name}|{'mb'[side.by_bytes]}", rate, rate * bucket.burst_seconds)
            want = side.wanted(spent, max(short, waiting - have if waiting else 0), now_ns)
            want = max(min(want, limit.burst), need) + max(0.0, -have)
            kept = max(0.0, have) if side.last is not None else 0.0
            is_known = bucket.granted_ns is not None and now_ns - bucket.granted_ns < _KNOWN_NS
            away_s = (call.away_ns - bucket.away_told_ns) / SECOND_NS
            request = Request(limit, want, period_ns / SECOND_NS, kept, side.last, need, is_known, away_s)
            if kept > request.renewed:
                _set(bucket, side, request.renewed)
            asked.append(Asked(side, request))
        bucket.forget_use()
        if not any(each.request.want for each in asked):
            bucket.is_active = False
            del self._accounts[bucket]
        return asked

    def _deposit(
        self, account: _Account, asked: Sequence[Asked], grants: Iterable[Grant], call: Call, now_ns: int
    ) -> None:
        bucket = account.bucket
        bucket.message_balance, bucket.byte_balance = bucket.balance(now_ns)
        is_stinted, is_quiet = False, True
        for each, grant in zip(asked, grants, strict=False):
            request, side = each.request, each.side
            have = bucket.byte_balance if side.by_bytes else bucket.message_balance
            if side.last is None:
                have = min(have, 0.0)
            _set(bucket, side, have + grant.tokens - request.renewed)
            side.last = grant
            side.gain(grant.tokens - request.kept, call.sent_ns)
            is_stinted = is_stinted or grant.tokens < request.want * (1 - _ALMOST)
            most = request.limit.burst / _QUIET_PARTS * SECOND_NS / _QUIET_NS
            is_quiet = is_quiet and grant.demand <= most
            lately = min(grant.tokens, request.want) / request.seconds
            if side.by_bytes:
                bucket.bytes_per_s_lately = lately
            else:
                bucket.messages_per_s_lately = lately
        bucket.is_stinted, account.is_quiet = is_stinted, is_quiet
        bucket.ends_ns = call.sent_ns + self._lease_ns
        bucket.granted_ns = now_ns
        bucket.away_told_ns = call.away_ns
        account.alone_ns = 0


def _set(bucket: DualBucket, side: Side, balance: float) -> None:
    if side.by_bytes:
        if bucket.bytes_per_s:
            bucket.byte_balance = balance
    elif bucket.messages_per_s:
        bucket.message_balance = balance


def _refill(rate: float, share: float, elapsed_ns: int) -> float:
    return rate * share * elapsed_ns if elapsed_ns else 0.0
