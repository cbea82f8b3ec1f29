"""Held operations, waiting for one bucket in the order in which they came.

Nothing is charged before an operation goes on, and whoever is first asks for himself: charging on behalf
of one who sleeps would let the bucket refill before his bytes flow, and break the bound of the bucket.
"""

from threading import Lock
from typing import TYPE_CHECKING

from sluicegate.engine.bucket import SECOND_NS, DualBucket

if TYPE_CHECKING:
    from sluicegate.model import Decision, Operation

LONGEST_WAIT_NS = SECOND_NS
"""A pause is looked at again at least this often: rates change and those ahead go away."""
RETRY_NS = 1_000_000
"""Least wait of one who is not first; his turn depends on another's timer."""
PATIENCE_NS = 5 * SECOND_NS
"""Silence after which a place is given to the next: nobody may block a line by never asking again."""


class Ticket:
    """What tells that an operation is held: its place in a line, if it waits in one.

    :param line: the line, or None if the operation is held for another reason than its turn.
    :param messages: need of the operation.
    :param nbytes: need of the operation.
    """

    __slots__ = (
        "asked_ns",
        "before",
        "behind",
        "bytes",
        "bytes_before",
        "decision",
        "line",
        "messages",
        "messages_before",
    )

    def __init__(self, line: "Line | None" = None, messages: int = 0, nbytes: int = 0) -> None:
        self.line = line
        """None too once the place was lost."""
        self.messages = messages
        self.bytes = nbytes
        self.messages_before = 0
        """Needs of all who ever joined the line before."""
        self.bytes_before = 0
        self.asked_ns = 0
        self.before: Ticket | None = None
        self.behind: Ticket | None = None
        self.decision: Decision | None = None
        """The decision recorded when the operation was first held."""


class Line:
    """FIFO of held operations over one bucket.

    The tickets are chained, as a deque takes 700 bytes even when it is empty, which nearly all lines are.

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
        "waiting",
    )

    def __init__(self, bucket: DualBucket) -> None:
        self.bucket = bucket
        self.first: Ticket | None = None
        """Whose turn is next; None if nobody waits."""
        self._last: Ticket | None = None
        self.waiting = 0
        """How many operations wait."""
        self._messages_joined = 0
        self._bytes_joined = 0
        self._served: Operation | None = None
        """Whose turn it was last, and when: until he comes later, what has been saved up is his."""
        self._served_ns = 0
        self._lock = Lock()

    def admit(self, op: "Operation", now_ns: int) -> int:
        """Let an operation pass if nobody waits before it and the bucket has enough.

        :return: 0 if it was charged (`op.ticket` is cleared), else the ns after which to ask again, at most
            a second; `op.ticket` then keeps its place.
        """
        nobody_waits = op.ticket is None and self.first is None
        if nobody_waits and self.bucket.take(op.messages, op.bytes, now_ns) == 0:
            return 0
        return self.wait_turn(op, now_ns)

    def wait_turn(self, op: "Operation", now_ns: int) -> int:
        """The part of `admit` for those who have to wait, or who waited already."""
        with self._lock:
            # One message for each turn would bind the rate to how often clients are woken, as the bucket
            # fills by several meanwhile; all that want a turn get one before he has the next.
            has_turn = op is self._served and now_ns == self._served_ns and op.ticket is None
            if has_turn and self.bucket.take(op.messages, op.bytes, now_ns) == 0:
                return 0
            ticket = self._place_of(op)
            ticket.asked_ns = now_ns
            first = self._first_present(now_ns) or ticket
            if first is not ticket:
                # Needs of those who left in the middle count until their place comes up. This keeps the
                # estimate O(1), and a wait is looked at again within a second anyway.
                wait = self.bucket.wait(
                    ticket.messages,
                    ticket.bytes,
                    now_ns,
                    ticket.messages_before - first.messages_before,
                    ticket.bytes_before - first.bytes_before,
                )
                return min(max(RETRY_NS, wait), LONGEST_WAIT_NS)
            wait = self.bucket.take(ticket.messages, ticket.bytes, now_ns)
            if wait == 0:
                self._remove(ticket)
                op.ticket = None
                self._served, self._served_ns = op, now_ns
            return min(wait, LONGEST_WAIT_NS)

    def leave(self, op: "Operation") -> None:
        """Give up an operation's place, uncharged; does nothing if it has none here."""
        with self._lock:
            ticket = op.ticket
            if isinstance(ticket, Ticket) and ticket.line is self:
                self._remove(ticket)
                op.ticket = None

    def _place_of(self, op: "Operation") -> Ticket:
        """The operation's place; a new one at the end if it has none."""
        held = op.ticket
        if isinstance(held, Ticket) and held.line is self:
            return held
        ticket = Ticket(self, op.messages, op.bytes)
        if isinstance(held, Ticket):
            ticket.decision = held.decision
            if held.line is not None:
                held.line.leave(op)
        op.ticket = ticket
        ticket.messages_before = self._messages_joined
        ticket.bytes_before = self._bytes_joined
        self._messages_joined += ticket.messages
        self._bytes_joined += ticket.bytes
        ticket.before = self._last
        if self._last is None:
            self.first = ticket
        else:
            self._last.behind = ticket
        self._last = ticket
        self.waiting += 1
        return ticket

    def _first_present(self, now_ns: int) -> Ticket | None:
        """Who is first, without those who have not asked for too long."""
        while (first := self.first) is not None and now_ns - first.asked_ns > PATIENCE_NS:
            self._remove(first)
        return first

    def _remove(self, ticket: Ticket) -> None:
        before, behind = ticket.before, ticket.behind
        if before is None:
            self.first = behind
        else:
            before.behind = behind
        if behind is None:
            self._last = before
        else:
            behind.before = before
        ticket.before = ticket.behind = ticket.line = None
        self.waiting -= 1
