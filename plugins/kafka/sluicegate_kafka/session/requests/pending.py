"""Responses in the order of their requests, whether the broker makes them, the gateway, or both."""

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from sluicegate.broker import Buffer, Command, ToClient
from sluicegate.engine.budget import Budget
from sluicegate_kafka.session.requests.held import Held
from sluicegate_kafka.session.requests.working import Handle


class Expected:
    """A response that the broker owes and that the gateway wants to see whole."""

    __slots__ = ("correlation_id", "handle")

    def __init__(self, correlation_id: int, handle: Handle) -> None:
        self.correlation_id = correlation_id
        self.handle = handle


class Glance:
    """A response that nearly always passes unchanged; made once for all such responses of a connection.

    :param plain_length: length of a response without anything to read, without the length field;
        -1 if unknown.
    :param passes: `(response without its length)` -> True if it may; called once it is complete.
    :param handle: makes the response to send if not.
    """

    __slots__ = ("handle", "passes", "plain_length")

    def __init__(self, plain_length: int, passes: Callable[[bytes], bool], handle: Handle) -> None:
        self.plain_length = plain_length
        self.passes = passes
        self.handle = handle


Glanced: TypeAlias = tuple[int, Glance]
"""Correlation id and how the response is checked: a tuple, as one is made for every Produce request."""
Owed: TypeAlias = int | Glanced | Expected
"""A response of the broker. A plain integer is the correlation id of one that passes unread."""
_FEW = 64
"""Up to so many owed responses do not count as memory."""
_OWED_BYTES = 512
"""Memory of each further one: an entry and the handler of its response."""


def correlation_id_of(entry: Owed) -> int:
    """The correlation id of the request that a response answers."""
    if isinstance(entry, int):
        return entry
    return entry[0] if isinstance(entry, tuple) else entry.correlation_id


class Outstanding:
    """The FIFO of one connection: Kafka answers each connection's requests in order.

    :param budget: bytes that all clients may hold together; finished responses are charged to it.
    """

    __slots__ = ("_ahead", "_budget", "_finished_bytes", "finished", "queue")

    def __init__(self, budget: Budget) -> None:
        self.queue: deque[Owed | Held] = deque()
        self.finished = 0
        """How many responses wait for their turn or their time."""
        self._ahead = 0
        """Finished responses at the head, behind which the broker's next one belongs."""
        self._budget = budget
        self._finished_bytes = 0

    def __len__(self) -> int:
        return len(self.queue)

    def expect(self, entry: Owed) -> None:
        """The broker will answer a request that was just forwarded."""
        self.queue.append(entry)

    def expect_if(self, is_read: bool, correlation_id: int, handle: Handle) -> None:
        """The same, where only some responses are of interest.

        :param is_read: whether this one is; if not, it passes unread.
        :param correlation_id: of the request.
        :param handle: gets the response.
        """
        self.queue.append(Expected(correlation_id, handle) if is_read else correlation_id)

    def answer(self, frame: Buffer) -> None:
        """Answer a request by the gateway itself; the response is sent in its turn."""
        self.queue.append(self._charged(Held(frame)))

    def _charged(self, entry: Held) -> Held:
        entry.is_waiting = True
        size = len(entry.frame)
        self._budget.charge(size)
        self._finished_bytes += size
        self.finished += 1
        return entry

    def _discharge(self, entry: Held) -> None:
        entry.is_waiting = False
        size = len(entry.frame)
        self._budget.give(size)
        self._finished_bytes -= size
        self.finished -= 1

    def arrived(self) -> Owed | None:
        """The entry that the next response of the broker belongs to; None if none is owed.

        Finished responses before it are skipped: they stay in place and go out first.
        """
        queue, place = self.queue, self._ahead
        while place < len(queue):
            entry = queue[place]
            if not isinstance(entry, Held):
                self._ahead = place
                return entry
            place += 1
        self._ahead = place
        return None

    def replace(self, entry: Owed, frame: "Buffer | Held | None") -> None:
        """Put the finished response in place of the entry it was expected at, the next that is owed."""
        if self.arrived() != entry:
            raise LookupError("a response is put in the place of one that is not its turn")
        place = self._ahead
        if frame is None:
            del self.queue[place]
        else:
            self.queue[place] = self._charged(frame if isinstance(frame, Held) else Held(frame))
            self._ahead = place + 1

    def settle(self, held: Held, frame: Buffer) -> None:
        """Replace a held response that still waits; the new one waits only for its turn."""
        if not held.is_waiting:
            return
        self._discharge(held)
        held.frame, held.at_ns = frame, 0
        self._charged(held)
        held.is_waiting = False

    def release(self, now_ns: int) -> list[Command]:
        """Take the responses at the head that may be sent now."""
        out: list[Command] = []
        queue = self.queue
        while queue:
            head = queue[0]
            if not isinstance(head, Held) or head.at_ns > now_ns:
                break
            out.append(ToClient(head.frame))
            queue.popleft()
            self._ahead = max(0, self._ahead - 1)
            self._discharge(head)
        return out

    def drop(self) -> None:
        """The connection is closed: discard everything that waits."""
        self._budget.give(self._finished_bytes)
        self._finished_bytes = self.finished = self._ahead = 0
        self.queue.clear()

    @property
    def due_ns(self) -> int | None:
        """When the response at the head is due; None if it is not held."""
        head = self.queue[0] if self.queue else None
        return head.at_ns if isinstance(head, Held) else None

    @property
    def held_bytes(self) -> int:
        """Bytes of finished responses that wait here, and what the others take if they are many."""
        return self._finished_bytes + max(0, len(self.queue) - _FEW) * _OWED_BYTES
