"""Decides a large Produce request by its start, so that its records pass unread.

It takes a request of one batch for one partition whose producer is attached already, and of which no policy
reads or measures messages. What is not admitted is kept whole and goes the usual way, with the decision made.
"""

from collections.abc import Callable, Mapping
from typing import Final

from sluicegate.model import Decision
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.codec.produce_requests import ProduceRequest, ProduceTopic, scan_start
from sluicegate_kafka.session.producing.repeated import Attached
from sluicegate_kafka.session.requests.connection import Connection
from sluicegate_kafka.session.requests.outcomes import Owed
from sluicegate_kafka.session.shared.shared import Shared

LARGE: Final = 64 * 1024
"""Bytes of a request from which it is decided by its start."""
START_BYTES: Final = 1024
"""Bytes in which that start is looked for: ids of client and transaction, topic, header of the batch."""


class Foretelling:
    """The large requests of one connection.

    :param shared: gates and gaps.
    :param connection: where they come from.
    :param attached: its producers, by topic and producer id.
    :param decide: asks a topic's gate: topic, acks, monotonic time.
    :param owe: what the broker owes for a request that passes now.
    """

    __slots__ = ("_attached", "_connection", "_decide", "_owe", "_shared", "decision")

    def __init__(
        self,
        shared: Shared,
        connection: Connection,
        attached: Mapping[tuple[str, int], Attached],
        decide: Callable[[ProduceTopic, int, int], Decision | None],
        owe: Callable[[ProduceRequest, int], Owed],
    ) -> None:
        self._shared = shared
        self._connection = connection
        self._attached = attached
        self._decide = decide
        self._owe = owe
        self.decision: Decision | None = None
        """On a request that is not admitted and has not arrived whole: its gate must not be asked twice."""

    def passes(self, data: bytes, head: RequestHead, now_ns: int) -> Owed | None:
        """Decide a request by its start.

        :param data: a buffer that holds the start.
        :param head: the request's header.
        :param now_ns: monotonic time.
        :return: what the broker owes for it if it passes; None if it is needed whole.
        """
        shared, connection = self._shared, self._connection
        if self.decision is not None or shared.policed.inspects or shared.client_gaps.by_client:
            return None
        request = scan_start(data, head)
        if request is None or request.acks == 0 or head.client_id != connection.client_id:
            return None
        topic = request.topics[0]
        attached = self._attached.get((topic.name, topic.producer_id))
        if attached is None or attached.looks or topic.largest_batch > attached.size_limit:
            return None
        live = shared.gates.exempt if connection.exempt else shared.gates.live
        if live.get(topic.name) is not attached.gate:
            return None
        self.decision = self._decide(topic, request.acks, now_ns)
        return None if self.decision is not None else self._owe(request, now_ns)

    def forget(self) -> None:
        """The request that the decision is about has arrived whole, and the decision is taken."""
        self.decision = None
