"""What the policies make of a message of the Python client, whichever way it waits."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from time import monotonic_ns
from typing import Any, TypeAlias

import pulsar

from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.sending import HeldMessage, Publisher
from sluicegate.client.text_headers import TextHeaders, message_of
from sluicegate.engine.delivery_time import delivery_by_header
from sluicegate.model import HeaderChange

Times: TypeAlias = tuple[int | None, timedelta | None]
"""`deliver_at` and `deliver_after`."""

_MS = timedelta(milliseconds=1)
_NOW: Times = (None, None)


class Outgoing:
    """The messages of one producer.

    :param policed: who it is; it has attached as a producer of the topic.
    :param topic: full name.
    :param schema: of the producer; it makes the payload.
    """

    def __init__(self, policed: PolicedClient, topic: str, schema: pulsar.schema.Schema) -> None:
        self.policed = policed
        self._publisher = Publisher(policed, topic, message_of)
        self._encode: Callable[[Any], bytes] = schema.encode
        self._takes_bytes = type(schema) is pulsar.schema.BytesSchema

    def decide(
        self, content: Any, times: Times, properties: TextHeaders, partition_key: str | None
    ) -> tuple[bytes | None, Times, HeldMessage | HeaderChange | None]:
        """Decide a message.

        :param content: as the application gives it; None for a null value.
        :return: its payload, when it is to be delivered, and what becomes of it.
        :raises RefusedError: if it is refused.
        """
        # <hot> Runs for every message.
        data: bytes | None
        if content is None or (self._takes_bytes and type(content) is bytes):
            data = content
        else:
            data = self._encode(content)
        now_ns = monotonic_ns()
        nbytes = len(data) if data else 0
        contents = ((properties, partition_key, data),)
        times = self.times(times, properties)
        if times == _NOW:
            return data, times, self._publisher.send(nbytes, now_ns, contents)
        deliver_at, deliver_after = times
        asked_ms = 0
        if deliver_after is not None:
            asked_ms = deliver_after // _MS
        elif deliver_at is not None:
            asked_ms = max(0, deliver_at - self.policed.engine.wall_ms(now_ns))
        return data, times, self._publisher.send(nbytes, now_ns, contents, delay_ms=asked_ms)

    def times(self, asked: Times, properties: TextHeaders) -> Times:
        """When a message is to be delivered: by the topic's policies, else as its application asks."""
        fixed_ms, header = self._publisher.delay()
        if fixed_ms:
            return None, timedelta(milliseconds=fixed_ms)
        if header and properties and header in properties:
            return _times_by({header: properties[header]}, header) or asked
        return asked


def _times_by(properties: Mapping[str, str], header: str) -> Times | None:
    """The delivery time that a header says; None for one that the policies refuse."""
    try:
        when = delivery_by_header([message_of(properties, None, None)], header)
    except ValueError:
        return None
    if when is None:
        return None
    return (None, timedelta(milliseconds=when.ms)) if when.is_delay else (when.ms, None)
