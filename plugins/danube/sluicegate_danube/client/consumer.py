"""danube-client's consumer with the policies in its process."""

import asyncio
from time import monotonic_ns
from typing import Any

import danube

from sluicegate.client.aio import finish
from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.receiving import Receiver
from sluicegate.client.refused import RefusedError
from sluicegate.model import OperationKind
from sluicegate_danube.client.exceptions import error

_FEW = 1
"""Messages that have passed and wait for the application; those behind them stay at the broker."""
_DROPS = tuple(
    f"on_limit.max_{of}dispatch_rate{unit}" for of in ("", "subscription_") for unit in ("", "_bytes")
)
_WHY_WAITING = "messages wait instead, as a client does not know whether its topic is dispatched reliably"


class Consumer(danube.Consumer):  # type: ignore[misc]  # danube-client has no types
    """The original's consumer; messages are put into its queue once they may pass."""

    policed: PolicedClient
    """Who it is; set by the builder."""

    async def subscribe(self) -> None:
        """Subscribe, as the original, once there is a place on the topic.

        :raises PolicyError: if there is none.
        """
        policed, topic, subscription = self.policed, self._topic_name, self._subscription
        try:
            await finish(
                policed.engine,
                lambda turn: policed.attaching(turn, OperationKind.ATTACH_CONSUMER, topic, subscription),
            )
        except RefusedError as refused:
            raise error(refused) from refused
        self._receiver = Receiver(policed, topic, subscription)
        self._name_drops()
        try:
            await super().subscribe()
        except BaseException:
            self._detach()
            raise

    async def receive(self) -> "asyncio.Queue[Any]":
        """Start receiving, as the original."""
        received = await super().receive()
        passed: asyncio.Queue[Any] = asyncio.Queue(maxsize=_FEW)
        self._tasks.append(asyncio.get_running_loop().create_task(self._pass_on(received, passed)))
        return passed

    async def ack(self, message: Any) -> None:
        """Acknowledge a message, as the original."""
        await super().ack(message)
        self._receiver.acknowledged(1, monotonic_ns())

    async def close(self) -> None:
        """Close it, as the original; its place is free then."""
        try:
            await super().close()
        finally:
            self.policed.end(monotonic_ns())

    async def _pass_on(self, received: "asyncio.Queue[Any]", passed: "asyncio.Queue[Any]") -> None:
        while True:
            message = await received.get()
            receiver = self._receiver  # there is one once it has subscribed
            while wait_ns := receiver.wait_ns(len(message.payload), message.publish_time, monotonic_ns()):
                self._name_drops()  # the policies may have changed
                await asyncio.sleep(wait_ns / 1e9)
            await passed.put(message)

    def _name_drops(self) -> None:
        """Name limits that drop at a gateway, which knows how a topic is dispatched."""
        policed = self.policed
        with policed.engine.lock:
            policies = policed.policies(self._topic_name, monotonic_ns(), self._subscription)
            for option in _DROPS:
                if policies.text(option, "") == "drop":
                    policed.leave(option, _WHY_WAITING)

    def _detach(self) -> None:
        with self.policed.engine.lock:
            self.policed.detach(monotonic_ns())


class ConsumerBuilder(danube.ConsumerBuilder):  # type: ignore[misc]  # danube-client has no types
    """The original's builder.

    :param client: a client with policies.
    """

    def build(self) -> Consumer:
        """The consumer; see `danube.ConsumerBuilder`."""
        client: Any = self._client
        original = super().build()
        consumer = Consumer.__new__(Consumer)
        consumer.__dict__.update(vars(original))
        consumer.policed = client.policed(self._consumer_name)
        return consumer
