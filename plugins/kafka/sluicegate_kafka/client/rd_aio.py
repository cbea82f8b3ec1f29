"""confluent-kafka's asyncio classes with the policies in their process."""

import asyncio
from time import monotonic_ns
from typing import Any

from confluent_kafka import aio

from sluicegate.client.aio import finish
from sluicegate.client.open_policies import OpenPolicies, Policies
from sluicegate.client.refused import RefusedError
from sluicegate.client.sending import HeldMessage, Publisher
from sluicegate.model import OperationKind
from sluicegate_kafka.client.described import length_of, message_of
from sluicegate_kafka.client.rd_consumer import Consumer
from sluicegate_kafka.client.rd_errors import publish_error
from sluicegate_kafka.client.rd_producer import policed_of

_NO_HEADERS = "AIOProducer takes no headers for messages that it batches"


class AIOProducer(aio.AIOProducer):
    """The original's producer; `produce` waits for the message's rate, or raises.

    :param policies: an engine, the path of a policy file, or the URL of a gateway's admin endpoint.
    :param broker: the cluster's entry in that file; by default the first one.
    :raises ConfigErrors: if the file has errors.
    """

    def __init__(
        self,
        producer_conf: dict[str, Any],
        *args: Any,
        policies: Policies,
        broker: str | None = None,
        **options: Any,
    ) -> None:
        self._open_policies = OpenPolicies(policies, "kafka", broker)
        with self._open_policies.closed_on_error():
            super().__init__(producer_conf, *args, **options)
        self._policed = policed_of(self._open_policies.engine, producer_conf)
        self._publishers: dict[str, Publisher] = {}

    async def produce(
        self, topic: str, value: Any = None, key: Any = None, *args: Any, **options: Any
    ) -> "asyncio.Future[Any]":
        """Batch a message, as the original, once the policies let it pass.

        :raises KafkaException: if it is refused.
        """
        try:
            publisher = self._publishers.get(topic) or await self._publisher(topic)
            contents = ((options.get("headers"), key, value),)
            decided = publisher.send(length_of(value) + length_of(key), monotonic_ns(), contents)
            if isinstance(decided, HeldMessage):
                await finish(self._policed.engine, decided.waiting)
        except RefusedError as refused:
            raise publish_error(refused) from refused
        return await super().produce(topic, value, key, *args, **options)

    async def close(self) -> None:
        """Flush and close, as the original; the producer's places are free then."""
        try:
            await super().close()
        finally:
            self._policed.end(monotonic_ns())
            self._open_policies.close()

    async def _publisher(self, topic: str) -> Publisher:
        """Attach as a producer of a topic."""
        policed, kind = self._policed, OperationKind.ATTACH_PRODUCER
        await finish(policed.engine, lambda turn: policed.attaching(turn, kind, topic))
        publisher = Publisher(policed, topic, message_of, unchangeable=_NO_HEADERS)
        return self._publishers.setdefault(topic, publisher)


class AIOConsumer(aio.AIOConsumer):
    """The original's consumer, over a `Consumer` with policies; it calls that one in threads.

    :param policies: an engine, the path of a policy file, or the URL of a gateway's admin endpoint.
    :param broker: the cluster's entry in that file; by default the first one.
    :raises ConfigErrors: if the file has errors.
    """

    def __init__(
        self,
        consumer_conf: dict[str, Any],
        *args: Any,
        policies: Policies,
        broker: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(consumer_conf, *args, **options)
        # The original makes its own, not connected yet, and wraps the callbacks in the configuration.
        self._consumer.close()
        self._consumer = Consumer(consumer_conf, policies=policies, broker=broker)
