"""Held operations, waiting for one bucket in the order in which they came.

Nothing is charged before an operation goes on, and whoever is first asks for himself: charging on behalf
of one who sleeps would let the bucket refill before his bytes flow, and break the bound of the bucket.

An operation may wait in several lines, one for each limit that held it, and keeps its place in all of them
until it goes on. Where it is first, those behind it pass nevertheless while it waits elsewhere: for others,
or for another bucket, and then what it needs is saved up for it here. So one limit never slows down those
whom only another one holds, and nobody starves: whoever was held first has what he needs in the end.
"""

from itertools import count
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

_HELD = count()


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
        "blocked",
        "bytes",
        "bytes_before",
        "decision",
        "has_turn",
        "line",
        "messages",
        "messages_before",
        "other",
        "saves",
        "since",
        "waits",
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
        self.other: Ticket | None = None
        """The operation's place in another line."""
        self.since = next(_HELD)
        """Counts the operations that were held, this one included; the same in all its places."""
        self.blocked = False
        """True while the operation waits for others elsewhere: those behind it may pass."""
        self.saves = False
        """True while it waits for another bucket, being first there: those behind it may pass if they leave
        what it needs."""
        self.has_turn = False
        """True if it was first when it last asked."""
        self.waits = False
        """True if it had to wait when it last asked."""

    def held(self, now_ns: int) -> None:
        """Note in all places of the operation that it was held, by one of the lines or by something else."""
        holder = self._holder(now_ns)
        saving = holder is not None and holder.has_turn
        place: Ticket | None = self
        while place is not None:
            elsewhere = place is not holder
            place.saves = saving and elsewhere
            place.blocked = elsewhere and not saving
            place.asked_ns = now_ns
            place = place.other

    def _holder(self, now_ns: int) -> "Ticket | None":
        place: Ticket | None = self
        while place is not None and not (place.waits and place.asked_ns == now_ns):
            place = place.other
        return place

    def leave(self) -> None:
        """Give up all places of the operation, uncharged."""
        place: Ticket | None = self
        while place is not None:
            if place.line is not None:
                place.line.drop(place)
            place = place.other

    def place_in(self, line: "Line") -> "Ticket | None":
        """The operation's place in a line; None if it has none there."""
        place: Ticket | None = self
        while place is not None and place.line is not line:
            place = place.other
        return place

    def without(self, gone: "Ticket") -> "Ticket | None":
        """The operation's places but one and those that were lost; the first of them keeps the decision."""
        kept: Ticket | None = None
        place: Ticket | None = self
        while place is not None:
            following = place.other
            if place is not gone and place.line is not None:
                place.other = kept
                kept = place
            place = following
        if kept is not None:
            kept.decision = self.decision
        return kept


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
        return self._ask(op, now_ns, taking=True)

    def ready(self, op: "Operation", now_ns: int) -> int:
        """Say whether `admit` would let an operation pass, and charge nothing.

        A place that it has is kept until the gate lets it go on or gives it up, as another limit may hold it.

        :return: 0 if it is its turn and the bucket has enough, else the ns after which to ask again, at most
            a second; the operation then has a place.
        """
        if self.first is None and self.bucket.has(op.messages, op.bytes, now_ns):
            return 0
        return self._ask(op, now_ns, taking=False)

    def _ask(self, op: "Operation", now_ns: int, *, taking: bool) -> int:
        with self._lock:
            held = op.ticket
            place = held.place_in(self) if isinstance(held, Ticket) else None
            first, saver = self._first_before(place, held, now_ns)
            # One message for each turn would bind the rate to how often clients are woken, as the bucket
            # fills by several meanwhile; all that want a turn get one before he has the next.
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
        self, place: Ticket | None, held: object, now_ns: int
    ) -> tuple[Ticket | None, Ticket | None]:
        """Who has his turn before a place, and for whom something is saved up; None for nobody.

        Those who have not asked for too long lose their places.

        :param place: None for the end of the line.
        :param held: any place of the operation; nothing is saved up before it for those who were held later,
            as two might then save up against each other.
        """
        since = held.since if isinstance(held, Ticket) else None
        saver: Ticket | None = None
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

    def _wait(self, op: "Operation", saver: Ticket | None, now_ns: int) -> int:
        if saver is None:
            return self.bucket.wait(op.messages, op.bytes, now_ns)
        return self.bucket.wait(op.messages, op.bytes, now_ns, saver.messages, saver.bytes)

    def _wait_behind(self, first: Ticket, place: Ticket, now_ns: int) -> int:
        # Needs of those who left in the middle count until their place comes up. This keeps the
        # estimate O(1), and a wait is looked at again within a second anyway.
        return self.bucket.wait(
            place.messages,
            place.bytes,
            now_ns,
            place.messages_before - first.messages_before,
            place.bytes_before - first.bytes_before,
        )

    def leave(self, op: "Operation") -> None:
        """Give up an operation's place, uncharged; does nothing if it has none here."""
        with self._lock:
            self._give_up(op)

    def drop(self, place: Ticket) -> None:
        """Give up one place of an operation, all of whose places go."""
        with self._lock:
            if place.line is self:
                self._remove(place)

    def _give_up(self, op: "Operation") -> None:
        held = op.ticket
        place = held.place_in(self) if isinstance(held, Ticket) else None
        if place is not None and isinstance(held, Ticket):
            self._remove(place)
            op.ticket = held.without(place)

    def _join(self, op: "Operation") -> Ticket:
        """A new place at the end for an operation."""
        held = op.ticket
        ticket = Ticket(self, op.messages, op.bytes)
        if isinstance(held, Ticket):
            ticket.other = held.without(ticket)
            ticket.decision = held.decision
            ticket.since = held.since
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
