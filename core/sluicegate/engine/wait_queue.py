"""FIFO queues of held operations, one for each bucket, and how long a request is held.

An operation charges the bucket when it proceeds. If it were charged while it still waits, the bucket would
refill before the bytes flow, and its bound would not hold.

An operation may wait in several queues, one for each limit that held it. It keeps its place in all of them
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
"""Shortest wait of an operation that is not first; its turn depends on another's timer."""
PATIENCE_NS = 5 * SECOND_NS
"""A waiter without an attempt for this long loses its place, so that it cannot block the queue."""

_HELD = count()


class Waiter:
    """A held operation, and its place in a queue if it waits in one.

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
        "has_turn",
        "messages",
        "messages_before",
        "other",
        "queue",
        "saves",
        "since",
        "waits",
    )

    def __init__(self, queue: "WaitQueue | None" = None, messages: int = 0, nbytes: int = 0) -> None:
        self.queue = queue
        """None after the place is lost, too."""
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
        """The operation's place in another queue."""
        self.since = next(_HELD)
        """Serial number among all held operations; the same in all places of one operation."""
        self.blocked = False
        """True while the operation waits for others in another queue: those behind it may pass."""
        self.saves = False
        """True while it is first in another queue and waits for that bucket: those behind it here may pass if
        they leave enough tokens for it."""
        self.has_turn = False
        """True if it was first at its last attempt."""
        self.waits = False
        """True if it had to wait at its last attempt."""

    def held(self, now_ns: int) -> None:
        """Mark all places of the operation as held, by one of the queues or for another reason."""
        holder = self._holder(now_ns)
        saving = holder is not None and holder.has_turn
        place: Waiter | None = self
        while place is not None:
            elsewhere = place is not holder
            place.saves = saving and elsewhere
            place.blocked = elsewhere and not saving
            place.asked_ns = now_ns
            place = place.other

    def _holder(self, now_ns: int) -> "Waiter | None":
        place: Waiter | None = self
        while place is not None and not (place.waits and place.asked_ns == now_ns):
            place = place.other
        return place

    def leave(self) -> None:
        """Give up all places of the operation without charging it."""
        place: Waiter | None = self
        while place is not None:
            if place.queue is not None:
                place.queue.drop(place)
            place = place.other

    def place_in(self, queue: "WaitQueue") -> "Waiter | None":
        """The operation's place in a queue; None if it has none there."""
        place: Waiter | None = self
        while place is not None and place.queue is not queue:
            place = place.other
        return place

    def without(self, gone: "Waiter") -> "Waiter | None":
        """The operation's places without one of them and without lost ones; the first keeps the decision."""
        kept: Waiter | None = None
        place: Waiter | None = self
        while place is not None:
            following = place.other
            if place is not gone and place.queue is not None:
                place.other = kept
                kept = place
            place = following
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
        """The waiter whose turn is next; None if the queue is empty."""
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

    def wait_turn(self, op: Operation, now_ns: int) -> int:
        """Admit an operation if it is its turn and the bucket has enough; otherwise it waits.

        :return: 0 if it was charged (it then has no place here), else the ns after which to try again, at
            most a second; `op.waiter` then keeps its place.
        """
        return self._ask(op, now_ns, taking=True)

    def ready(self, op: Operation, now_ns: int) -> int:
        """Whether `wait_turn` would admit an operation; charges nothing.

        An operation keeps its place until the gate admits it or gives it up, as another limit may hold it.

        :return: 0 if it is its turn and the bucket has enough, else the ns after which to try again, at most
            a second; the operation then has a place.
        """
        if self.first is None and self.bucket.has(op.messages, op.bytes, now_ns):
            return 0
        return self._ask(op, now_ns, taking=False)

    def wait_outside(self, op: Operation, now_ns: int) -> int:
        """How long an operation would have to wait that the limit does not apply to; it gets no place.

        :return: 0 if no operation waits and the bucket has enough, else ns.
        """
        wait = self.bucket.wait(op.messages, op.bytes, now_ns)
        return wait if self.first is None else max(wait, RETRY_NS)

    def take_outside(self, op: Operation, now_ns: int) -> None:
        """Charge an operation that the limit does not apply to, unless it would have had to wait."""
        if self.first is None:
            self.bucket.take(op.messages, op.bytes, now_ns)

    def _ask(self, op: Operation, now_ns: int, *, taking: bool) -> int:
        with self._lock:
            held = op.waiter
            place = held.place_in(self) if isinstance(held, Waiter) else None
            first, saver = self._first_before(place, held, now_ns)
            # The operation admitted last may proceed within its turn: with one message for each turn, the
            # rate would depend on how often clients wake. All others get a turn before it has the next.
            has_turn = first is None or (place is None and op is self._served and now_ns == self._served_ns)
            if has_turn and (wait := self._wait(op, saver, now_ns)) == 0:
                if place is not None:
                    place.asked_ns, place.waits = now_ns, False
                    self._served, self._served_ns = op, now_ns
                if taking:
                    self.bucket.charge(op.messages, op.bytes, now_ns)
                    self._give_up(op)
                return 0
            if place is None:
                place = self._join(op)
            place.asked_ns, place.has_turn, place.waits = now_ns, first is None, True
            if first is not None:
                wait = max(RETRY_NS, self._wait_behind(first, place, now_ns))
            return min(wait, LONGEST_WAIT_NS)

    def _first_before(
        self, place: Waiter | None, held: object, now_ns: int
    ) -> tuple[Waiter | None, Waiter | None]:
        """The waiter whose turn comes before a place, and the one with a reservation; None if there is none.

        Waiters that made no attempt for too long lose their places.

        :param place: None for the end of the queue.
        :param held: any place of the operation. Operations that were held later have no reservation against
            it, as two operations could otherwise block each other.
        """
        since = held.since if isinstance(held, Waiter) else None
        saver: Waiter | None = None
        other = self.first
        while other is not None and other is not place:
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

    def _wait_behind(self, first: Waiter, place: Waiter, now_ns: int) -> int:
        # Needs of waiters that left in the middle count until their place comes up. This keeps the estimate
        # O(1), and each waiter tries again within a second anyway.
        return self.bucket.wait(
            place.messages,
            place.bytes,
            now_ns,
            place.messages_before - first.messages_before,
            place.bytes_before - first.bytes_before,
        )

    def drop(self, place: Waiter) -> None:
        """Remove one place of an operation that gives up all its places."""
        with self._lock:
            if place.queue is self:
                self._remove(place)

    def _give_up(self, op: Operation) -> None:
        held = op.waiter
        place = held.place_in(self) if isinstance(held, Waiter) else None
        if place is not None and isinstance(held, Waiter):
            self._remove(place)
            op.waiter = held.without(place)

    def _join(self, op: Operation) -> Waiter:
        """A new place at the end for an operation."""
        held = op.waiter
        waiter = Waiter(self, op.messages, op.bytes)
        if isinstance(held, Waiter):
            waiter.other = held.without(waiter)
            waiter.decision = held.decision
            waiter.since = held.since
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
