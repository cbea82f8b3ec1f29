"""The bounded queue between the hot path and the log's writer thread."""

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
"""Number of rows between two checks of the queue's length."""


class RowQueue:
    """Rows to be written. One thread puts, another takes, and neither waits.

    :param limit: capacity; further rows are dropped and counted.
    """

    allowed: Allowed
    """Append a row for an operation that was allowed: `(gate, op, now_ns)`."""
    put: Callable[[Row], None]
    """Append a row."""

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
        """Rows put so far, including dropped ones."""
        return self._count() + self.overflowed

    def __len__(self) -> int:
        """Number of queued rows."""
        return len(self._queue)

    def take(self) -> tuple[list[Row], dict[int, int]]:
        """Take queued rows, at most one batch.

        :return: the rows, and the durations of timed decisions in ns by row index.
        """
        take = self._queue.popleft
        rows = [take() for _ in repeat(None, min(len(self._queue), MAX_BATCH_ROWS))]
        return rows, self._costs_until(self._taken + len(rows))

    def _costs_until(self, taken: int) -> dict[int, int]:
        """The samples of rows up to a number, by their index in the batch that ends with it."""
        costs: dict[int, int] = {}
        while self._samples and self._samples[0][0] <= taken:
            number, cost_ns = self._samples.popleft()
            if number > self._taken:  # otherwise its row was in the batch before: drop the sample
                costs[number - self._taken - 1] = cost_ns
        self._taken = taken
        return costs

    def _note_cost(self, _gate: DecidedGate, cost_ns: int) -> None:
        """Store the duration of the decision whose row was just put."""
        if len(self._samples) < _MAX_SAMPLES:
            self._samples.append((self._count(), cost_ns))

    def _compile(self) -> tuple[Allowed, Callable[[Row], None], Callable[[], int]]:
        # <hot> `allowed` runs for every message. So its variables are in closure cells instead of attributes,
        # and the single counter that it changes also triggers the checks of the queue's length.
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
