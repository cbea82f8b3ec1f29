"""The bounded queue between the path of messages and the log's writer thread."""

from collections import deque
from collections.abc import Callable
from itertools import repeat
from typing import TypeAlias

from sluicegate.decisions.cost import CostSampler, DecidedGate
from sluicegate.decisions.rows import MAX_BATCH_ROWS, Row
from sluicegate.model import Operation, OperationKind

Allowed: TypeAlias = Callable[[DecidedGate, Operation, int], None]

_MAX_SAMPLES = 4_096
_AT_ONCE = 256
"""How many rows may be put before the queue's length is looked at again."""


class RowQueue:
    """Rows that wait to be written; one thread puts, another takes, and none waits.

    :param limit: rows that may wait; more are dropped and counted.
    """

    allowed: Allowed
    """Put a row for an operation that was allowed: `(gate, op, now_ns)`."""
    put: Callable[[Row], None]
    """Put a row."""

    def __init__(self, limit: int) -> None:
        self._queue: deque[Row] = deque()
        self._samples: deque[tuple[int, int]] = deque()
        self._taken = 0
        self._limit = limit
        self.overflowed = 0
        """Rows dropped because the queue was full."""
        self.allowed, self.put, self._count = self._compile()

    @property
    def offered(self) -> int:
        """Rows put so far, those dropped included."""
        return self._count() + self.overflowed

    def __len__(self) -> int:
        """How much waits."""
        return len(self._queue)

    def take(self) -> tuple[list[Row], dict[int, int]]:
        """Take what waits, at most a batch.

        :return: the rows, and what a decision took in ns, by place in the rows, where it was timed.
        """
        take = self._queue.popleft
        rows = [take() for _ in repeat(None, min(len(self._queue), MAX_BATCH_ROWS))]
        return rows, self._costs_until(self._taken + len(rows))

    def _costs_until(self, taken: int) -> dict[int, int]:
        """The samples of rows up to a number, by their place in the batch that ends with it."""
        costs: dict[int, int] = {}
        while self._samples and self._samples[0][0] <= taken:
            number, cost_ns = self._samples.popleft()
            if number > self._taken:  # else its row went with the batch before: the sample is let go
                costs[number - self._taken - 1] = cost_ns
        self._taken = taken
        return costs

    def _note_cost(self, _gate: DecidedGate, cost_ns: int) -> None:
        """Remember what the decision of the row just put took."""
        if len(self._samples) < _MAX_SAMPLES:
            self._samples.append((self._count(), cost_ns))

    def _compile(self) -> tuple[Allowed, Callable[[Row], None], Callable[[], int]]:
        # <hot> `allowed` runs for every message: what it needs is in cells, not behind `self`, and the one
        # number that it changes both counts the rows and tells when to look at the queue's length again.
        queue, limit, append = self._queue, self._limit, self._queue.append
        publish = OperationKind.PUBLISH
        count = bound = 0
        costs = CostSampler(self._note_cost)

        def make_room() -> bool:
            nonlocal bound
            bound = count + min(_AT_ONCE, limit - len(queue))
            if bound > count:
                return True
            self.overflowed += 1
            return False

        def allowed(gate: DecidedGate, op: Operation, now_ns: int) -> None:
            nonlocal count
            if count >= bound:
                if not make_room():
                    return
                if now_ns >= costs.next_ns and op.kind is publish:
                    costs.arm(gate, now_ns)
            count += 1
            append(
                (now_ns, gate, op.kind, op.principal, op.client, op.subscription, op.messages, op.bytes, None)
            )

        def put(row: Row) -> None:
            nonlocal count
            if count < bound or make_room():
                count += 1
                append(row)

        return allowed, put, lambda: count
