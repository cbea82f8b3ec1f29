"""The Python client's table view with the policies in its process."""

from time import monotonic_ns
from typing import Final

from pulsar import tableview

from sluicegate.client.policed_client import PolicedClient

_OF_DISPATCH: Final = (
    "max_dispatch_rate",
    "max_dispatch_rate_bytes",
    "consume_quota",
    "consume_quota_bytes",
    "principal_consume_quota",
    "principal_consume_quota_bytes",
    "fixed_delivery_delay",
)
"""Policies that apply to what a reader receives."""
_WHY: Final = "a table view reads inside the C++ library"


class TableView(tableview.TableView):  # type: ignore[misc]  # pulsar-client has no types
    """The original's table view, which counts as a consumer.

    The library reads messages for it without a call here: policies that are set for that are named as not
    enforced.

    :param original: the table view that the client has opened.
    :param policed: who it is; it has attached as a consumer of its topic.
    :param topic: full name.
    """

    def __init__(self, original: tableview.TableView, policed: PolicedClient, topic: str) -> None:
        self.__dict__.update(vars(original))
        self._policed = policed
        with policed.engine.lock:
            policies = policed.policies(topic, monotonic_ns())
            for field in _OF_DISPATCH:
                if policies.number(field) > 0:
                    policed.leave(field, _WHY)

    def close(self) -> None:
        """Close it, as the original; its place is free then."""
        try:
            super().close()
        finally:
            self._policed.end(monotonic_ns())
