"""FIFO queues of held operations, one for each bucket, and how long a request is held.

An operation charges the bucket when it proceeds. If it were charged while it still waits, the bucket would
refill before the bytes flow, and its bound would not hold.

An operation may wait in several queues, one for each limit that held it, and has a waiter in each of them
until it proceeds. While the first operation of a queue waits for another limit, those behind it may pass. If
it only waits for another bucket, the tokens that it needs are reserved here meanwhile. So a limit never slows
down operations that it does not hold itself, and none starves: the one that was held first gets its tokens.
"""

from dataclasses import dataclass, field
from itertools import count
from threading import Lock

from sluicegate.engine.bucket import SECOND_NS, DualBucket
from sluicegate.model import Action, Decision, Operation

LONGEST_WAIT_NS = SECOND_NS
"""Longest time between two attempts of a waiter: rates change and operations ahead leave."""
RETRY_NS = 1_000_000
"""Shortest wait of an operation that is not first: when it is depends on another's timer."""
PATIENCE_NS = 5 * SECOND_NS
"""A waiter without an attempt for this long leaves its queue, so that it cannot block it."""

_HELD = count()


class Waiter:
    """A held operation as it waits in one queue, or for another reason.

    :param queue: None if the operation is held for another reason.
    :param messages: messages that the operation needs.
    :param nbytes: bytes that the operation needs.
    """

    __slots__ = (
        "asked_ns",
        "before",
        "behind",
        "blocked",
        "bytes",
        "bytes_before",
        "decision",
        "messages",
        "messages_before",
        "other",
        "queue",
        "saves",
        "since",
        "waits",
        "was_first",
    )

    def __init__(self, queue: "WaitQueue | None" = None, messages: int = 0, nbytes: int = 0) -> None:
        self.queue = queue
        """None once it has left it, too."""
        self.messages = messages
        self.bytes = nbytes
        self.messages_before = 0
        """Messages of all operations that ever joined the queue before this one."""
        self.bytes_before = 0
        self.asked_ns = 0
        self.before: Waiter | None = None
        self.behind: Waiter | None = None
        self.decision: Decision | None = None
        """The decision recorded when the operation was first held."""
        self.other: Waiter | None = None
        """The operation's waiter in another queue."""
        self.since = next(_HELD)
        """Serial number among all held operations; the same for all waiters of one operation."""
        self.blocked = False
        """True while the operation waits for others in another queue: those behind it may pass."""
        self.saves = False
        """True while it is first in another queue and waits for that bucket: those behind it here may pass if
        they leave enough tokens for it."""
        self.was_first = False
        """True if it was first at its last attempt."""
        self.waits = False
        """True if it had to wait at its last attempt."""

    def mark_held(self, now_ns: int) -> None:
        """Mark all waiters of the operation as held, by one of the queues or for another reason."""
        holder = self._holder(now_ns)
        saving = holder is not None and holder.was_first
        waiter: Waiter | None = self
        while waiter is not None:
            elsewhere = waiter is not holder
            waiter.saves = saving and elsewhere
            waiter.blocked = elsewhere and not saving
            waiter.asked_ns = now_ns
            waiter = waiter.other

    def _holder(self, now_ns: int) -> "Waiter | None":
        waiter: Waiter | None = self
        while waiter is not None and not (waiter.waits and waiter.asked_ns == now_ns):
            waiter = waiter.other
        return waiter

    def leave(self) -> None:
        """Leave all queues of the operation without charging it."""
        waiter: Waiter | None = self
        while waiter is not None:
            if waiter.queue is not None:
                waiter.queue.drop(waiter)
            waiter = waiter.other

    def in_queue(self, queue: "WaitQueue") -> "Waiter | None":
        """The operation's waiter in a queue; None if it has none there."""
        waiter: Waiter | None = self
        while waiter is not None and waiter.queue is not queue:
            waiter = waiter.other
        return waiter

    def without(self, gone: "Waiter") -> "Waiter | None":
        """The operation's waiters without one of them and those that left; the first keeps the decision."""
        kept: Waiter | None = None
        waiter: Waiter | None = self
        while waiter is not None:
            following = waiter.other
            if waiter is not gone and waiter.queue is not None:
                waiter.other = kept
                kept = waiter
            waiter = following
        if kept is not None:
            kept.decision = self.decision
        return kept


class WaitQueue:
    """FIFO of held operations that wait for one bucket.

    Waiters form a linked list: a deque takes 700 bytes even when it is empty, as nearly all queues are.

    :param bucket: what they wait for.
    """

    __slots__ = (
        "_bytes_joined",
        "_last",
        "_lock",
        "_messages_joined",
        "_served",
        "_served_ns",
        "bucket",
        "first",
        "passed_bytes",
        "passed_messages",
        "waiting",
    )

    def __init__(self, bucket: DualBucket) -> None:
        self.bucket = bucket
        self.first: Waiter | None = None
        """The waiter that joined first; None if the queue is empty."""
        self._last: Waiter | None = None
        self.waiting = 0
        """How many operations wait."""
        self.passed_messages = 0
        """Messages that passed a limit of a subscription; topics count what passes themselves."""
        self.passed_bytes = 0
        self._messages_joined = 0
        self._bytes_joined = 0
        self._served: Operation | None = None
        """The waiting operation that was admitted last; it may proceed again at that same time."""
        self._served_ns = 0
        self._lock = Lock()

    def take(self, op: Operation, now_ns: int) -> int:
        """Charge an operation if it is first and the bucket has enough; otherwise it waits.

        :return: 0 if it was charged (it then waits here no more), else the ns after which to try again, at
            most a second; `op.waiter` then waits for it.
        """
        return self._ask(op, now_ns, taking=True)

    def ready(self, op: Operation, now_ns: int) -> int:
        """Whether `take` would charge an operation; nothing is charged.

        An operation waits until the gate admits it or gives it up, as another limit may hold it.

        :return: 0 if it is first and the bucket has enough, else the ns after which to try again, at most a
            second; the operation then waits here.
        """
        if self.first is None and self.bucket.has(op.messages, op.bytes, now_ns):
            return 0
        return self._ask(op, now_ns, taking=False)

    def wait_outside(self, op: Operation, now_ns: int) -> int:
        """How long an operation would have to wait that the limit does not apply to; it joins no queue.

        :return: 0 if no operation waits and the bucket has enough, else ns.
        """
        wait = self.bucket.wait(op.messages, op.bytes, now_ns)
        return wait if self.first is None else max(wait, RETRY_NS)

    def take_outside(self, op: Operation, now_ns: int) -> None:
        """Charge an operation that the limit does not apply to, unless it would have had to wait."""
        if self.first is None:
            self.bucket.take(op.messages, op.bytes, now_ns)

    def backlog(self) -> tuple[int, int]:
        """Messages and bytes of those that wait.

        What left in the middle counts until all before it are gone.
        """
        first = self.first
        if first is None:
            return 0, 0
        return (
            self._messages_joined - first.messages_before,
            self._bytes_joined - first.bytes_before,
        )

    def _ask(self, op: Operation, now_ns: int, *, taking: bool) -> int:
        with self._lock:
            own = op.waiter if isinstance(op.waiter, Waiter) else None
            here = own.in_queue(self) if own is not None else None
            first, saver = self._first_before(here, own, now_ns)
            # The operation admitted last may proceed again at that time: with one message for each wake-up,
            # the rate would depend on how often clients wake. All others come before it the next time.
            is_next = first is None or (here is None and op is self._served and now_ns == self._served_ns)
            if is_next and (wait := self._wait(op, saver, now_ns)) == 0:
                if here is not None:
                    here.asked_ns, here.waits = now_ns, False
                    self._served, self._served_ns = op, now_ns
                if taking:
                    self.bucket.charge(op.messages, op.bytes, now_ns)
                    if own is not None and here is not None:
                        self._remove(here)
                        op.waiter = own.without(here)
                return 0
            if here is None:
                here = self._join(op, own)
            here.asked_ns, here.was_first, here.waits = now_ns, first is None, True
            if first is not None:
                wait = max(RETRY_NS, self._wait_behind(first, here, now_ns))
            return min(wait, LONGEST_WAIT_NS)

    def _first_before(
        self, here: Waiter | None, own: Waiter | None, now_ns: int
    ) -> tuple[Waiter | None, Waiter | None]:
        """The waiter that comes before another, and the one with a reservation; None if there is none.

        Waiters that made no attempt for too long leave the queue.

        :param here: None for the end of the queue.
        :param own: any waiter of the operation. Operations that were held later have no reservation against
            it, as two operations could otherwise block each other.
        """
        since = own.since if own is not None else None
        saver: Waiter | None = None
        other = self.first
        while other is not None and other is not here:
            behind = other.behind
            if now_ns - other.asked_ns > PATIENCE_NS:
                self._remove(other)
            elif other.saves:
                if saver is None and (since is None or other.since < since):
                    saver = other
            elif not other.blocked:
                return other, saver
            other = behind
        return None, saver

    def _wait(self, op: Operation, saver: Waiter | None, now_ns: int) -> int:
        if saver is None:
            return self.bucket.wait(op.messages, op.bytes, now_ns)
        return self.bucket.wait(op.messages, op.bytes, now_ns, saver.messages, saver.bytes)

    def _wait_behind(self, first: Waiter, waiter: Waiter, now_ns: int) -> int:
        # Needs of waiters that left in the middle count until all before them are gone. This keeps the
        # estimate O(1), and each waiter tries again within a second anyway.
        return self.bucket.wait(
            waiter.messages,
            waiter.bytes,
            now_ns,
            waiter.messages_before - first.messages_before,
            waiter.bytes_before - first.bytes_before,
        )

    def drop(self, waiter: Waiter) -> None:
        """Remove a waiter of an operation that leaves all its queues."""
        with self._lock:
            if waiter.queue is self:
                self._remove(waiter)

    def _join(self, op: Operation, own: Waiter | None) -> Waiter:
        """A new waiter at the end for an operation.

        :param own: any waiter of the operation.
        """
        waiter = Waiter(self, op.messages, op.bytes)
        if own is not None:
            waiter.other = own.without(waiter)
            waiter.decision = own.decision
            waiter.since = own.since
        op.waiter = waiter
        waiter.messages_before = self._messages_joined
        waiter.bytes_before = self._bytes_joined
        self._messages_joined += waiter.messages
        self._bytes_joined += waiter.bytes
        waiter.before = self._last
        if self._last is None:
            self.first = waiter
        else:
            self._last.behind = waiter
        self._last = waiter
        self.waiting += 1
        return waiter

    def _remove(self, waiter: Waiter) -> None:
        before, behind = waiter.before, waiter.behind
        if before is None:
            self.first = behind
        else:
            before.behind = behind
        if behind is None:
            self._last = before
        else:
            behind.before = before
        waiter.before = waiter.behind = waiter.queue = None
        self.waiting -= 1


@dataclass(slots=True)
class Hold:
    """How long one request is held: until a deadline after the first hold."""

    longest_ns: int
    """`max_hold`."""
    least_ns: int = 1_000_000
    """Least wait between two decisions."""
    _end_ns: int = field(default=0, init=False)

    def wait_ns(self, decision: Decision, now_ns: int) -> int:
        """How long to wait before the next decision; 0 to refuse.

        :param decision: what stops the request now: a refusal, or a delay that may be too long.
        """
        if decision.action is not Action.DELAY:
            return 0
        if not self._end_ns:
            self._end_ns = now_ns + self.longest_ns
        return max(0, min(max(decision.delay_ns, self.least_ns), self._end_ns - now_ns))
