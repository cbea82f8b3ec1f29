"""The Python client's asyncio classes with the policies in their process.

`Client` has the name and signature of `pulsar.asyncio.Client` with one more keyword, `policies`.
"""

import asyncio
from datetime import timedelta
from time import monotonic_ns
from typing import Any

import pulsar
from pulsar import asyncio as original_aio

from sluicegate.client.aio import finish
from sluicegate.client.open_policies import OpenPolicies, Policies
from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.refused import RefusedError
from sluicegate.client.sending import HeldMessage
from sluicegate.client.text_headers import changed
from sluicegate.model import ANONYMOUS, UNCHANGED, OperationKind
from sluicegate_pulsar.client.exceptions import aio_error
from sluicegate_pulsar.client.incoming import Incoming
from sluicegate_pulsar.client.opened import SEND_TIMEOUT_MS, Opened
from sluicegate_pulsar.client.outgoing import Outgoing
from sluicegate_pulsar.names import topic_name

__all__ = ["Client", "Consumer", "Producer", "Reader"]


class Producer(original_aio.Producer):  # type: ignore[misc]  # pulsar-client has no types
    """The original's producer; `send` waits for the message's rate, or raises.

    :param original: the producer that the client has opened.
    :param policed: who it is; it has attached as a producer of the topic.
    :param topic: full name.
    """

    def __init__(self, original: original_aio.Producer, policed: PolicedClient, topic: str) -> None:
        super().__init__(original._producer, pulsar.schema.BytesSchema())  # noqa: SLF001
        self._outgoing = Outgoing(policed, topic, original._schema)  # noqa: SLF001

    async def send(
        self,
        content: Any,
        properties: dict[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | None = None,
        sequence_id: int | None = None,
        replication_clusters: list[str] | None = None,
        disable_replication: bool | None = None,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: timedelta | None = None,
    ) -> pulsar.MessageId:
        """Send a message, as the original, once the policies let it pass.

        :raises pulsar.asyncio.PulsarException: if it is refused.
        """
        asked = (deliver_at, deliver_after)
        try:
            data, times, decided = self._outgoing.decide(content, asked, properties, partition_key)
            if isinstance(decided, HeldMessage):
                decided = await finish(self._outgoing.policed.engine, decided.waiting)
            if decided is not None and decided is not UNCHANGED:
                properties = changed(properties, decided)
        except RefusedError as refused:
            raise aio_error(refused) from refused
        return await super().send(
            data,
            properties,
            partition_key,
            ordering_key,
            sequence_id,
            replication_clusters,
            disable_replication,
            event_timestamp,
            *times,
        )

    async def close(self) -> None:
        """Close it, as the original; its place is free then."""
        try:
            await super().close()
        finally:
            self._outgoing.policed.end(monotonic_ns())


class Consumer(original_aio.Consumer):  # type: ignore[misc]  # pulsar-client has no types
    """The original's consumer; a message that has to wait stays in this process, unacknowledged.

    :param original: the consumer that the client has opened.
    :param policed: who it is; it has attached as a consumer of its topics.
    """

    def __init__(self, original: original_aio.Consumer, policed: PolicedClient) -> None:
        super().__init__(original._consumer, original._schema)  # noqa: SLF001
        self._incoming = Incoming(policed, original.subscription_name())

    async def receive(self) -> pulsar.Message:
        """The next message, as the original's, once it may pass."""
        return await _passed(self._incoming, self._incoming.next_waiting() or await super().receive())

    async def acknowledge(self, message: Any) -> None:
        """Acknowledge a message, as the original."""
        await super().acknowledge(message)
        self._incoming.acknowledged(message)

    async def acknowledge_cumulative(self, message: Any) -> None:
        """Acknowledge a message and those before it, as the original."""
        await super().acknowledge_cumulative(message)
        self._incoming.acknowledged_up_to(message)

    async def negative_acknowledge(self, message: Any) -> None:
        """Have a message delivered again, as the original."""
        await super().negative_acknowledge(message)
        self._incoming.acknowledged(message)

    def redeliver_unacknowledged_messages(self) -> None:
        """Have all unacknowledged messages delivered again, as the original; what waits is among them."""
        super().redeliver_unacknowledged_messages()
        self._incoming.all_given_back()

    async def close(self) -> None:
        """Close it, as the original; its places are free then, and what waited is delivered elsewhere."""
        try:
            await super().close()
        finally:
            self._incoming.policed.end(monotonic_ns())


class Reader(original_aio.Reader):  # type: ignore[misc]  # pulsar-client has no types
    """The original's reader, to which dispatch rates and delays apply as to a consumer.

    :param original: the reader that the client has opened.
    :param policed: who it is; it has attached as a consumer of its topic.
    """

    def __init__(self, original: original_aio.Reader, policed: PolicedClient) -> None:
        super().__init__(original._reader, original._schema)  # noqa: SLF001
        self._incoming = Incoming(policed, "")

    async def read_next(self) -> pulsar.Message:
        """The next message, as the original's, once it may pass."""
        return await _passed(self._incoming, self._incoming.next_waiting() or await super().read_next())

    async def has_message_available(self) -> bool:
        """Whether there is a message behind the position, as the original; also one that waits."""
        return bool(self._incoming.waiting) or await super().has_message_available()

    async def seek(self, messageid: Any) -> None:
        """Go to a message or a time, as the original; what waits is read again from there."""
        await super().seek(messageid)
        self._incoming.waiting.clear()

    async def close(self) -> None:
        """Close it, as the original; its place is free then."""
        try:
            await super().close()
        finally:
            self._incoming.policed.end(monotonic_ns())


class Client(original_aio.Client):  # type: ignore[misc]  # pulsar-client has no types
    """The original's client, whose producers and consumers apply the policies.

    :param policies: an engine, the path of a policy file, or the URL of a gateway's admin endpoint.
    :param broker: the cluster's entry in that file; by default the first one.
    :param principal: whom it logs in as, which only the broker can tell from a token.
    :raises ConfigErrors: if the file has errors.
    """

    def __init__(
        self,
        *args: Any,
        policies: Policies,
        broker: str | None = None,
        principal: str = ANONYMOUS,
        **options: Any,
    ) -> None:
        self._open_policies = OpenPolicies(policies, "pulsar", broker)
        with self._open_policies.closed_on_error():
            super().__init__(*args, **options)
        self._opened = Opened(self._open_policies, principal)

    async def create_producer(self, topic: str, *args: Any, **options: Any) -> Producer:
        """Open a producer, as the original, once there is a place on its topic.

        :raises pulsar.asyncio.PulsarException: if there is none.
        """
        patience_ms = options.get("send_timeout_millis", SEND_TIMEOUT_MS)
        policed = self._opened.new(options.get("producer_name"), patience_ms)
        full = topic_name(topic).full
        try:
            await self._attach(policed, OperationKind.ATTACH_PRODUCER, full)
            return Producer(await super().create_producer(topic, *args, **options), policed, full)
        except BaseException:
            policed.end(monotonic_ns())
            raise

    async def subscribe(self, topic: Any, subscription_name: str, *args: Any, **options: Any) -> Consumer:
        """Open a consumer, as the original, once there is a place on each of its topics.

        :raises pulsar.asyncio.PulsarException: if there is none.
        """
        policed = self._opened.new(options.get("consumer_name"))
        topics = [topic] if isinstance(topic, str) else topic
        is_pattern = options.get("is_pattern_topic", False)
        try:
            for each in () if is_pattern else topics:
                full = topic_name(each).full
                await self._attach(policed, OperationKind.ATTACH_CONSUMER, full, subscription_name)
            original = await super().subscribe(topic, subscription_name, *args, **options)
        except BaseException:
            policed.end(monotonic_ns())
            raise
        return Consumer(original, policed)

    async def create_reader(self, topic: str, *args: Any, **options: Any) -> Reader:
        """Open a reader, as the original, once there is a place for a consumer on its topic.

        :raises pulsar.asyncio.PulsarException: if there is none.
        """
        policed = self._opened.new(options.get("reader_name"))
        try:
            await self._attach(policed, OperationKind.ATTACH_CONSUMER, topic_name(topic).full)
            return Reader(await super().create_reader(topic, *args, **options), policed)
        except BaseException:
            policed.end(monotonic_ns())
            raise

    async def close(self) -> None:
        """Close it with its producers and consumers, as the original."""
        try:
            await super().close()
        finally:
            self._opened.close()

    @staticmethod
    async def _attach(
        policed: PolicedClient, kind: OperationKind, topic: str, subscription: str = ""
    ) -> None:
        try:
            await finish(policed.engine, lambda turn: policed.attaching(turn, kind, topic, subscription))
        except RefusedError as refused:
            raise aio_error(refused) from refused


async def _passed(incoming: Incoming, message: pulsar.Message) -> pulsar.Message:
    """A received message once it may pass; it is the next one again if its receiver is cancelled."""
    try:
        while wait_ns := incoming.wait_ns(message):  # noqa: ASYNC110 - until a time, not until an event
            await asyncio.sleep(wait_ns / 1e9)
    except BaseException:
        incoming.waiting.appendleft(message)
        raise
    return message
