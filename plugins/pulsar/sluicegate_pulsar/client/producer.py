"""The Python client's producer with the policies in its process."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from threading import Event
from time import monotonic_ns
from typing import Any

import pulsar

from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.refused import RefusedError
from sluicegate.client.sending import HeldMessage
from sluicegate.client.sync import ClosedError, finish
from sluicegate.client.text_headers import TextHeaders, changed
from sluicegate.model import UNCHANGED
from sluicegate_pulsar.client.exceptions import error
from sluicegate_pulsar.client.outgoing import Outgoing, Times


class Producer(pulsar.Producer):  # type: ignore[misc]  # pulsar-client has no types
    """The original's producer; `send` and `send_async` block while a message waits for its rate, or raise.

    :param original: the producer that the client has opened.
    :param policed: who it is; it has attached as a producer of the topic.
    :param topic: full name.
    """

    def __init__(self, original: pulsar.Producer, policed: PolicedClient, topic: str) -> None:
        self.__dict__.update(vars(original))
        self._outgoing = Outgoing(policed, topic, original._schema)  # noqa: SLF001
        self._schema = pulsar.schema.BytesSchema()
        self._is_closed = Event()

    def send(
        self,
        content: Any,
        properties: Mapping[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | None = None,
        sequence_id: int | None = None,
        replication_clusters: list[str] | None = None,
        disable_replication: bool = False,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: timedelta | None = None,
    ) -> Any:
        """Publish a message, as the original, once the policies let it pass.

        :raises pulsar.exceptions.PulsarException: if it is refused.
        """
        data, properties, (deliver_at, deliver_after) = self._admitted(
            content, properties, partition_key, (deliver_at, deliver_after)
        )
        return super().send(
            data,
            properties,
            partition_key,
            ordering_key,
            sequence_id,
            replication_clusters,
            disable_replication,
            event_timestamp,
            deliver_at,
            deliver_after,
        )

    def send_async(
        self,
        content: Any,
        callback: Callable[[Any, Any], None],
        properties: Mapping[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | None = None,
        sequence_id: int | None = None,
        replication_clusters: list[str] | None = None,
        disable_replication: bool = False,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: timedelta | None = None,
    ) -> None:
        """Queue a message, as the original, once the policies let it pass.

        :raises pulsar.exceptions.PulsarException: if it is refused; the callback is not called then.
        """
        data, properties, (deliver_at, deliver_after) = self._admitted(
            content, properties, partition_key, (deliver_at, deliver_after)
        )
        super().send_async(
            data,
            callback,
            properties,
            partition_key,
            ordering_key,
            sequence_id,
            replication_clusters,
            disable_replication,
            event_timestamp,
            deliver_at,
            deliver_after,
        )

    def close(self) -> None:
        """Close it, as the original; its place is free then."""
        self._is_closed.set()
        try:
            super().close()
        finally:
            self._outgoing.policed.end(monotonic_ns())

    def _admitted(
        self, content: Any, properties: TextHeaders, partition_key: str | None, times: Times
    ) -> tuple[bytes | None, TextHeaders, Times]:
        """Wait until a message may be sent: its payload and properties, and when it is to be delivered."""
        outgoing = self._outgoing
        try:
            data, due, decided = outgoing.decide(content, times, properties, partition_key)
            if decided is UNCHANGED:
                return data, properties, due
            if isinstance(decided, HeldMessage):
                decided = finish(outgoing.policed.engine, decided.waiting, self._is_closed)
                due = outgoing.times(times, properties)  # of the policies in force now
            if decided is not None and decided is not UNCHANGED:
                properties = changed(properties, decided)
        except RefusedError as refused:
            raise error(refused) from refused
        except ClosedError as closed:
            raise pulsar.exceptions.AlreadyClosed("the producer was closed") from closed
        return data, properties, due
