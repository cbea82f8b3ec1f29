"""What the policies make of a message of the Python client, whichever way it waits."""

from collections.abc import Callable
from datetime import timedelta
from time import monotonic_ns
from typing import Any, TypeAlias

import pulsar

from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.sending import HeldMessage, Pass, Publisher

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
        self._publisher = Publisher(policed, topic)
        self._encode: Callable[[Any], bytes] = schema.encode
        self._takes_bytes = type(schema) is pulsar.schema.BytesSchema

    def decide(self, content: Any, times: Times) -> tuple[bytes | None, Pass | HeldMessage]:
        """Decide a message.

        :param content: as the application gives it; None for a null value.
        :return: its payload, and what becomes of it.
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
        if times == _NOW:
            return data, self._publisher.send(nbytes, now_ns)
        deliver_at, deliver_after = times
        asked_ms = 0
        if deliver_after is not None:
            asked_ms = deliver_after // _MS
        elif deliver_at is not None:
            asked_ms = max(0, deliver_at - self.policed.engine.wall_ms(now_ns))
        return data, self._publisher.send(nbytes, now_ns, delay_ms=asked_ms)

    def times(self, asked: Times) -> Times:
        """When a message is to be delivered: as its application asks, unless the topic has a fixed delay."""
        fixed_ms = self._publisher.fixed_delay_ms()
        return (None, timedelta(milliseconds=fixed_ms)) if fixed_ms else asked
