"""The rows of the gateway's decision log for one topic, in the terms that judges need."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sluicegate.demo.law import Admitted, Held

Row = Mapping[str, Any]


class TopicLog:
    """Decisions on one topic, in order of time.

    :param rows: as `read_decisions` gives them.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows: Sequence[Row] = sorted(rows, key=lambda row: row["time"])

    def of(self, operation: str, action: str, policy: str | None = None) -> Iterator[Row]:
        """Rows of an operation with an action; of one policy if it is given."""
        for row in self.rows:
            if row["operation"] == operation and row["action"] == action and policy in (None, row["policy"]):
                yield row

    def count(self, action: str, policy: str) -> int:
        """How many rows a policy has with an action, whatever the operation."""
        return sum(row["action"] == action and row["policy"] == policy for row in self.rows)

    def admitted(self, operation: str, unit: str, subscription: str | None = None) -> list[Admitted]:
        """What passed.

        :param unit: `messages` or `bytes`.
        :param subscription: of one subscription only.
        """
        return [
            Admitted(_at(row), row[unit])
            for row in self.of(operation, "allow")
            if subscription in (None, row["subscription"])
        ]

    def held(self, operation: str, policy: str, unit: str, subscription: str | None = None) -> list[Held]:
        """What a policy made wait."""
        return [
            Held(_at(row), row["delay"] / 1e9, row[unit])
            for row in self.of(operation, "delay", policy)
            if subscription in (None, row["subscription"])
        ]

    def refused(self, operation: str, policy: str, unit: str) -> list[Admitted]:
        """What a policy refused."""
        return [Admitted(_at(row), row[unit]) for row in self.of(operation, "reject", policy)]

    def subscriptions(self, operation: str) -> list[str]:
        """The subscriptions that an operation was allowed for.

        What a consumer still gets while it leaves its group has none.
        """
        found = dict.fromkeys(row["subscription"] for row in self.of(operation, "allow"))
        return [subscription for subscription in found if subscription is not None]


def _at(row: Row) -> float:
    found: float = row["time"].timestamp()
    return found
