"""danube-client's producer with the policies in its process."""

from time import monotonic_ns
from typing import Any

import danube

from sluicegate.client.aio import finish
from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.refused import RefusedError
from sluicegate.client.sending import HeldMessage, Pass, Publisher
from sluicegate.model import OperationKind
from sluicegate_danube.client.exceptions import error

_DROPPED = 0
"""What `send` returns for a message that was dropped, as `on_limit: drop` says."""


class Producer(danube.Producer):  # type: ignore[misc]  # danube-client has no types
    """The original's producer; a message waits for its rate, or is refused, before it is sent."""

    policed: PolicedClient
    """Who it is; set by the builder."""

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
        self._publisher = Publisher(policed, topic, reliable=reliable)
        try:
            await super().create()
        except BaseException:
            self._detach()
            raise

    async def send(self, data: bytes, attributes: dict[str, str] | None = None) -> int:
        """Send a message, as the original, once the policies let it pass.

        :raises PolicyError: if it is refused.
        """
        return await super().send(data, attributes) if await self._passes(data) else _DROPPED

    async def send_with_key(self, data: bytes, attributes: dict[str, str] | None, routing_key: str) -> int:
        """Send a message with a key, as the original, once the policies let it pass.

        :raises PolicyError: if it is refused.
        """
        passes = await self._passes(data)
        return await super().send_with_key(data, attributes, routing_key) if passes else _DROPPED

    async def close(self) -> None:
        """Close it, as the original; its place is free then."""
        try:
            await super().close()
        finally:
            self.policed.end(monotonic_ns())

    async def _passes(self, data: bytes) -> bool:
        try:
            decided = self._publisher.send(len(data), monotonic_ns())
            if isinstance(decided, HeldMessage):
                await finish(self.policed.engine, decided.waiting)
        except RefusedError as refused:
            raise error(refused) from refused
        return decided is not Pass.DROP

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
