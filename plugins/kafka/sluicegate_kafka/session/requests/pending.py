"""Responses in the order of their requests, whether the broker makes them, the gateway, or both."""

from collections import deque

from sluicegate.broker import Buffer, Command, ToClient
from sluicegate.engine.budget import Budget
from sluicegate.sessions.work import Resume
from sluicegate_kafka.session.requests.outcomes import Finished, Owed

_FEW = 64
"""Up to so many owed responses do not count as memory."""
_OWED_BYTES = 512
"""Memory of each further one: an entry and the handler of its response."""


def correlation_id_of(entry: Owed) -> int:
    """The correlation id of a response and of its request."""
    if isinstance(entry, int):
        return entry
    return entry[0] if isinstance(entry, tuple) else entry.correlation_id


class Outstanding:
    """The FIFO of one connection: Kafka responds to each connection's requests in order.

    :param budget: bytes that all clients may hold together; finished responses are charged to it.
    :param most: how many responses may be owed before no further request is read.
    """

    __slots__ = ("_ahead", "_budget", "_finished_bytes", "finished", "most", "on_half", "queue")

    def __init__(self, budget: Budget, most: int) -> None:
        self.queue: deque[Owed | Finished] = deque()
        """Responses of forwarded requests are appended by who forwards them."""
        self.most = most
        self.finished = 0
        """How many responses wait for others or for a time."""
        self._ahead = 0
        """Finished responses at the head, behind which the broker's next one belongs."""
        self._budget = budget
        self._finished_bytes = 0
        self.on_half: Resume | None = None
        """Resumes work that waits until half of them are sent."""

    def __len__(self) -> int:
        return len(self.queue)

    def answer(self, frame: Buffer) -> None:
        """Answer a request by the gateway itself; the response is sent after those before it."""
        self.queue.append(self._charged(Finished(frame)))

    def _charged(self, entry: Finished) -> Finished:
        size = len(entry.frame)
        self._budget.charge(size)
        self._finished_bytes += size
        self.finished += 1
        return entry

    def _discharge(self, entry: Finished) -> None:
        size = len(entry.frame)
        self._budget.give(size)
        self._finished_bytes -= size
        self.finished -= 1

    def arrived(self) -> Owed | None:
        """The entry that the next response of the broker belongs to; None if none is owed.

        Finished responses before it are skipped: they stay in place and go out first.
        """
        queue, index = self.queue, self._ahead
        while index < len(queue):
            entry = queue[index]
            if not isinstance(entry, Finished):
                self._ahead = index
                return entry
            index += 1
        self._ahead = index
        return None

    def replace(self, entry: Owed, frame: "Buffer | Finished | None") -> None:
        """Put the finished response in place of the entry it was expected at, the next that is owed."""
        if self.arrived() != entry:
            raise LookupError("a response comes for an entry that is not the next one owed")
        index = self._ahead
        if frame is None:
            del self.queue[index]
        else:
            self.queue[index] = self._charged(frame if isinstance(frame, Finished) else Finished(frame))
            self._ahead = index + 1

    def settle(self, entry: Finished, frame: Buffer) -> None:
        """The work of a response has made another one, which waits only for those before it."""
        self._discharge(entry)
        entry.becomes(frame)
        self._charged(entry)

    def release(self, now_ns: int) -> list[Command]:
        """Take the responses at the head that may be sent now."""
        out: list[Command] = []
        queue = self.queue
        while queue:
            head = queue[0]
            if not isinstance(head, Finished) or head.at_ns > now_ns:
                break
            if head.work is not None:  # it took too long: the client is told to try again
                head.work.close(now_ns)
            out.append(ToClient(head.frame))
            queue.popleft()
            self._ahead = max(0, self._ahead - 1)
            self._discharge(head)
        return out

    def when_half_sent(self, resume: Resume) -> None:
        """Have work resumed once few enough responses are owed to read further requests."""
        self.on_half = resume

    def half_sent(self) -> Resume | None:
        """Take what resumes that work, if it is time."""
        if self.on_half is None or len(self.queue) > self.most // 2:
            return None
        resume, self.on_half = self.on_half, None
        return resume

    def drop(self, now_ns: int) -> None:
        """The connection is closed: discard everything that waits."""
        for entry in self.queue:
            if isinstance(entry, Finished) and entry.work is not None:
                entry.work.close(now_ns)
        self._budget.give(self._finished_bytes)
        self._finished_bytes = self.finished = self._ahead = 0
        self.queue.clear()

    @property
    def due_ns(self) -> int | None:
        """When the response at the head is due; None if it has yet to come."""
        head = self.queue[0] if self.queue else None
        return head.at_ns if isinstance(head, Finished) else None

    @property
    def held_bytes(self) -> int:
        """Bytes of finished responses that wait here, and what the others take if they are many."""
        return self._finished_bytes + max(0, len(self.queue) - _FEW) * _OWED_BYTES
