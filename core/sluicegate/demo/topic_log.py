"""The rows of the decision log for one topic, with queries for judges."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sluicegate.demo.law import Admitted, Held

Row = Mapping[str, Any]


class TopicLog:
    """Decisions on one topic, in order of time.

    :param rows: rows as returned by `read_decisions`.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows: Sequence[Row] = sorted(rows, key=lambda row: row["time"])

    def of(self, operation: str, action: str, policy: str | None = None) -> Iterator[Row]:
        """Rows of an operation with an action; of one policy if it is given."""
        for row in self.rows:
            if row["operation"] == operation and row["action"] == action and policy in (None, row["policy"]):
                yield row

    def count(self, action: str, policy: str) -> int:
        """Number of rows of a policy with an action, for any operation."""
        return sum(row["action"] == action and row["policy"] == policy for row in self.rows)

    def admitted(self, operation: str, unit: str, subscription: str | None = None) -> list[Admitted]:
        """The admitted operations.

        :param unit: `messages` or `bytes`.
        :param subscription: only those of one subscription.
        """
        return [
            Admitted(_at(row), row[unit])
            for row in self.of(operation, "allow")
            if subscription in (None, row["subscription"])
        ]

    def held(self, operation: str, policy: str, unit: str, subscription: str | None = None) -> list[Held]:
        """The operations that a policy held."""
        return [
            Held(_at(row), row["delay"] / 1e9, row[unit])
            for row in self.of(operation, "delay", policy)
            if subscription in (None, row["subscription"])
        ]

    def refused(self, operation: str, policy: str, unit: str) -> list[Admitted]:
        """The operations that a policy refused."""
        return [Admitted(_at(row), row[unit]) for row in self.of(operation, "reject", policy)]

    def subscriptions(self, operation: str) -> list[str]:
        """The subscriptions of an allowed operation.

        Messages that a consumer receives while it leaves its group have none.
        """
        names = dict.fromkeys(row["subscription"] for row in self.of(operation, "allow"))
        return [subscription for subscription in names if subscription is not None]


def _at(row: Row) -> float:
    seconds: float = row["time"].timestamp()
    return seconds
