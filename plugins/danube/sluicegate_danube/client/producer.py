"""danube-client's producer with the policies in its process."""

from time import monotonic_ns
from typing import Any

import danube

from sluicegate.client.aio import finish
from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.refused import RefusedError
from sluicegate.client.sending import HeldMessage, Publisher
from sluicegate.client.text_headers import TextHeaders, changed, message_of
from sluicegate.model import UNCHANGED, HeaderChange, OperationKind
from sluicegate_danube.client.exceptions import error

_DROPPED = 0
"""What `send` returns for a message that was dropped, as `on_limit: drop` says."""


class Producer(danube.Producer):  # type: ignore[misc]  # danube-client has no types
    """The original's producer; a message waits for its rate, or is refused, before it is sent."""

    policed: PolicedClient
    """Who it is; set by the builder."""
    _publisher: Publisher | None = None
    """Its messages, once it is created; before that the original refuses them."""

    async def create(self) -> None:
        """Register with the brokers, as the original, once there is a place on the topic.

        :raises PolicyError: if there is none.
        """
        policed, topic = self.policed, self._topic_name
        try:
            await finish(
                policed.engine, lambda turn: policed.attaching(turn, OperationKind.ATTACH_PRODUCER, topic)
            )
        except RefusedError as refused:
            raise error(refused) from refused
        reliable = self._dispatch_strategy is danube.DispatchStrategy.RELIABLE
        self._publisher = Publisher(policed, topic, message_of, reliable=reliable)
        try:
            await super().create()
        except BaseException:
            self._detach()
            raise

    async def send(self, data: bytes, attributes: dict[str, str] | None = None) -> int:
        """Send a message, as the original, once the policies let it pass.

        :raises PolicyError: if it is refused.
        """
        change = await self._change(data, attributes)
        if change is None:
            return _DROPPED
        if change is not UNCHANGED:
            attributes = changed(attributes, change)
        return await super().send(data, attributes)  # type: ignore[no-any-return]

    async def send_with_key(self, data: bytes, attributes: dict[str, str] | None, routing_key: str) -> int:
        """Send a message with a key, as the original, once the policies let it pass.

        :raises PolicyError: if it is refused.
        """
        change = await self._change(data, attributes, routing_key)
        if change is None:
            return _DROPPED
        if change is not UNCHANGED:
            attributes = changed(attributes, change)
        return await super().send_with_key(data, attributes, routing_key)  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Close it, as the original; its place is free then."""
        try:
            await super().close()
        finally:
            self.policed.end(monotonic_ns())

    async def _change(
        self, data: bytes, attributes: TextHeaders, routing_key: str | None = None
    ) -> HeaderChange | None:
        """Wait until a message may be sent: what changes in its attributes, or None if it is dropped."""
        if self._publisher is None:
            return UNCHANGED
        try:
            contents = ((attributes, routing_key, data),)
            change = self._publisher.send(len(data), monotonic_ns(), contents)
            if isinstance(change, HeldMessage):
                return await finish(self.policed.engine, change.waiting)
        except RefusedError as refused:
            raise error(refused) from refused
        return change

    def _detach(self) -> None:
        with self.policed.engine.lock:
            self.policed.detach(monotonic_ns())


class ProducerBuilder(danube.ProducerBuilder):  # type: ignore[misc]  # danube-client has no types
    """The original's builder.

    :param client: a client with policies.
    """

    def build(self) -> Producer:
        """The producer; see `danube.ProducerBuilder`."""
        client: Any = self._client
        original = super().build()
        producer = Producer.__new__(Producer)
        producer.__dict__.update(vars(original))
        producer.policed = client.policed(self._producer_name)
        return producer
