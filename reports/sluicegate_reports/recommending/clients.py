"""The most clients of each topic that were active in one minute; a log does not record when they leave."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate_reports.transforms.summing import Summing, summed

TOPIC = ("system", "gateway", "namespace", "topic")
COUNTS = ("producers", "consumers", "subscriptions", "subscription_consumers")
MINUTE = "minute"
PRODUCES = "produces"
OPERATIONS = ("publish", "dispatch", "attach_producer", "attach_consumer")
OF_PRODUCERS = ("publish", "attach_producer")


class Clients:
    """Counts clients minute by minute, of topics whose clients are told; all texts are numbers."""

    def __init__(self) -> None:
        self._minutes = Summing((*TOPIC, MINUTE, PRODUCES, "subscription", "client"))
        self._subscriptions = Summing((*TOPIC, "subscription"))
        self._most: dict[tuple[int, ...], dict[str, int]] = {}

    def __len__(self) -> int:
        """Clients of minutes that are not complete."""
        return len(self._minutes)

    def add(self, allowed: pa.Table) -> None:
        """Add rows of `OPERATIONS` that were allowed one by one.

        :param allowed: with `MINUTE` since 1970, and `PRODUCES`, whether it is one of `OF_PRODUCERS`.
        """
        self._minutes.add(allowed.filter(pc.is_valid(allowed["client"])))

    def complete(self, minute: int) -> None:
        """Say that no row of a minute before this one comes any more."""
        complete = self._minutes.take(pc.field(MINUTE) < minute)
        if complete is None:
            return
        producers = complete.filter(pc.field(PRODUCES))
        consumers = complete.filter(~pc.field(PRODUCES))
        subscribed = consumers.filter(pc.field("subscription").is_valid())
        self._subscriptions.add(subscribed)
        self._raise("producers", producers, (*TOPIC, MINUTE), "client")
        self._raise("consumers", consumers, (*TOPIC, MINUTE), "client", "subscription")
        self._raise("subscription_consumers", subscribed, (*TOPIC, "subscription", MINUTE), "client")

    def most(self) -> Mapping[tuple[int, ...], Mapping[str, int]]:
        """By topic `COUNTS`: of `subscriptions` all that were seen, of `subscription_consumers` those of one.

        Only of minutes that are complete.
        """
        subscriptions = self._subscriptions.sums()
        if subscriptions is not None:
            self._raise("subscriptions", subscriptions, TOPIC, "subscription")
        return self._most

    def _raise(self, name: str, rows: pa.Table, keys: tuple[str, ...], *counted: str) -> None:
        """Raise a count of each topic to the most different ones that a group of rows has."""
        different = summed(rows, (*keys, *counted), ())
        groups = different.group_by([*keys], use_threads=False).aggregate([([], "count_all")])
        peaks = groups.group_by([*TOPIC], use_threads=False).aggregate([("count_all", "max")])
        for row in peaks.to_pylist():
            most = self._most.setdefault(tuple(row[key] for key in TOPIC), dict.fromkeys(COUNTS, 0))
            most[name] = max(most[name], row["count_all_max"])
