"""confluent-kafka's producer with the policies in its process."""

from collections.abc import Callable, Mapping, Sequence
from threading import Event
from time import monotonic_ns
from typing import Any, TypeAlias

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from sluicegate.client.open_policies import OpenPolicies, Policies
from sluicegate.client.policed_client import Engine, PolicedClient
from sluicegate.client.refused import RefusedError
from sluicegate.client.sending import HeldMessage, Publisher
from sluicegate.client.sync import ClosedError, finish
from sluicegate.model import UNCHANGED, HeaderChange, OperationKind
from sluicegate_kafka.client.described import Text, changed, length_of, lengths_of, message_of
from sluicegate_kafka.client.rd_errors import publish_error
from sluicegate_kafka.client.rd_settings import principal_of, settings_of

Headers: TypeAlias = dict[str, Text] | list[tuple[str, Text]] | None

_TIMEOUT_MS = 300_000
"""librdkafka's `message.timeout.ms` if unset."""


class Producer(confluent_kafka.Producer):
    """confluent-kafka's producer; `produce` blocks while a message waits for its rate, or raises.

    :param policies: an engine, the path of a policy file, or the URL of a gateway's admin endpoint.
    :param broker: the cluster's entry in that file; by default the first one.
    :raises ConfigErrors: if the file has errors.
    """

    def __init__(self, *args: Any, policies: Policies, broker: str | None = None, **options: Any) -> None:
        self._open_policies = OpenPolicies(policies, "kafka", broker)
        with self._open_policies.closed_on_error():
            super().__init__(*args, **options)
        settings = settings_of(args, options)
        self._policed = policed_of(self._open_policies.engine, settings)
        acks = settings.get("acks", settings.get("request.required.acks", "all"))
        self._wants_answers = str(acks) != "0"
        self._publishers: dict[str, Publisher] = {}
        self._is_closed = Event()

    def produce(
        self,
        topic: str,
        value: Text = None,
        key: Text = None,
        partition: int = -1,
        callback: Callable[..., None] | None = None,
        on_delivery: Callable[..., None] | None = None,
        timestamp: int = 0,
        headers: Headers = None,
    ) -> None:
        """Queue a message, as the original, once the policies let it pass.

        :raises KafkaException: if it is refused: 44 (policy violation), 10 (too large), or a time-out if it
            was held for `message.timeout.ms`.
        """
        # <hot> Runs for every message.
        nbytes = length_of(value) + length_of(key) + lengths_of(headers)
        change = self.admit(topic, nbytes, ((headers, key, value),))
        if change is not UNCHANGED:
            if change is None:
                return
            headers = changed(headers, change)
        super().produce(
            topic, value, key, partition, on_delivery or callback, timestamp=timestamp, headers=headers
        )

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: Callable[..., None] | None = None,
        on_delivery: Callable[..., None] | None = None,
    ) -> int:
        """Queue messages, as the original, once the policies let all of them pass."""
        sizes = [
            length_of(each.get("value")) + length_of(each.get("key")) + lengths_of(each.get("headers"))
            for each in messages
        ]
        if sizes:
            contents = [(each.get("headers"), each.get("key"), each.get("value")) for each in messages]
            change = self.admit(topic, sum(sizes), contents, len(sizes), max(sizes))
            if change is None:
                return 0
            if change is not UNCHANGED:
                messages = [{**each, "headers": changed(each.get("headers"), change)} for each in messages]
        return super().produce_batch(topic, messages, partition, on_delivery or callback)

    def admit(
        self,
        topic: str,
        nbytes: int,
        contents: Sequence[tuple[Any, ...]],
        messages: int = 1,
        largest: int | None = None,
    ) -> HeaderChange | None:
        """Wait until messages may be sent: what changes in their headers, or None if they are dropped.

        :raises KafkaException: if they are refused.
        """
        try:
            publisher = self._publishers.get(topic) or self._publisher(topic)
            change = publisher.send(nbytes, monotonic_ns(), contents, messages, largest)
            if isinstance(change, HeldMessage):
                return finish(self._policed.engine, change.waiting, self._is_closed)
            return change
        except RefusedError as refused:
            raise publish_error(refused) from refused
        except ClosedError as error:
            raise KafkaException(KafkaError(KafkaError._DESTROY, "the producer was closed")) from error  # noqa: SLF001

    def close(self) -> bool:
        """Flush and close, as the original; the producer's places are free then."""
        self._is_closed.set()
        try:
            return super().close()
        finally:
            self._policed.end(monotonic_ns())
            self._open_policies.close()

    def __exit__(self, *error: Any) -> None:
        """Close it."""
        self.close()

    def _publisher(self, topic: str) -> Publisher:
        """Attach as a producer of a topic."""
        policed, kind = self._policed, OperationKind.ATTACH_PRODUCER
        finish(policed.engine, lambda turn: policed.attaching(turn, kind, topic), self._is_closed)
        publisher = Publisher(policed, topic, message_of, reliable=self._wants_answers)
        return self._publishers.setdefault(topic, publisher)


def policed_of(engine: Engine, settings: Mapping[str, Any]) -> PolicedClient:
    """Who a producer is, by its configuration; it waits as long as librdkafka keeps a message."""
    patience_ms = int(settings.get("message.timeout.ms", _TIMEOUT_MS))
    return PolicedClient(
        engine,
        principal_of(settings),
        settings.get("client.id", "rdkafka"),
        patience_ms * 1_000_000 if patience_ms else None,
    )
