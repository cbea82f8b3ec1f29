"""aiokafka. Kafka's producers do not register: the first message decides whether one is admitted."""

import asyncio
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import BrokerResponseError, KafkaError

from sluicegate_reports.runner.clients.base import Delivery, FailedError, OnDelivery, RefusedError
from sluicegate_reports.runner.plan import ArmPlan, ConsumerPlan, ProducerPlan

_REQUEST_MS = 15_000
_SESSION_MS = 6_000
_HEARTBEAT_MS = 500
_BATCH_BYTES = 16_384
_CLOSE_S = 1.0
_LARGEST_BYTES = 100 << 20


def _refusal(error: BaseException) -> RefusedError:
    """An error of the client as a refusal, if it is the broker's answer and a retry cannot help."""
    kind = type(error).__name__
    text = " ".join(str(error).split())
    is_refusal = isinstance(error, BrokerResponseError) and not error.retriable
    return (RefusedError if is_refusal else FailedError)(kind, text)


class Driver:
    """Clients of one arm.

    The option `client_id` makes all producers of a topic share one id, which Kafka's own quotas go by.
    """

    def __init__(self, plan: ArmPlan) -> None:
        self._plan = plan

    def producer(self, plan: ProducerPlan) -> "_Producer":
        """A producer."""
        shared = self._plan.options.get("client_id", "")
        client_id = plan.topic if shared == "topic" else plan.name
        return _Producer(self._plan.addresses, client_id, plan)

    def consumer(self, plan: ConsumerPlan) -> "_Consumer":
        """A member of a group."""
        shared = self._plan.options.get("client_id", "")
        client_id = plan.topic if shared == "topic" else plan.name
        return _Consumer(self._plan.addresses, client_id, plan)


class _Producer:
    attaches_by_publishing = True

    def __init__(self, addresses: tuple[str, ...], client_id: str, plan: ProducerPlan) -> None:
        self._topic = plan.topic
        self._started = False
        # A message that finds the batch full waits in aiokafka, where a later one would overtake it.
        self._handing_over = asyncio.Lock()
        self._partition = 0 if plan.partitions == 1 else None
        self._client: Any = AIOKafkaProducer(
            bootstrap_servers=list(addresses),
            client_id=client_id,
            acks=1,
            request_timeout_ms=_REQUEST_MS,
            max_batch_size=max(_BATCH_BYTES, plan.size + 200),
            max_request_size=_LARGEST_BYTES,
        )

    def turned_away(self, refusal: RefusedError) -> bool:
        return refusal.code == "PolicyViolationError"

    async def attach(self) -> None:
        if self._started:
            return
        try:
            await self._client.start()
        except KafkaError as error:
            raise _refusal(error) from None
        self._started = True

    async def publish(self, payload: bytes) -> None:
        try:
            async with self._handing_over:
                response = await self._client.send(self._topic, payload, partition=self._partition)
            await response
        except KafkaError as error:
            raise _refusal(error) from None

    async def close(self) -> None:
        # It keeps sending buffered messages until the request time-out.
        with suppress(TimeoutError, KafkaError):
            await asyncio.wait_for(self._client.stop(), _CLOSE_S)


class _Consumer:
    def __init__(self, addresses: tuple[str, ...], client_id: str, plan: ConsumerPlan) -> None:
        self._plan = plan
        self._settings = {
            "bootstrap_servers": list(addresses),
            "group_id": plan.subscription,
            "client_id": client_id,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": _SESSION_MS,
            "heartbeat_interval_ms": _HEARTBEAT_MS,
            "fetch_max_wait_ms": 100,
        }
        self._client: Any = None
        self._reading: asyncio.Task[None] | None = None

    async def attach(self, deliver: OnDelivery) -> None:
        # One that was stopped cannot be started again.
        self._client = AIOKafkaConsumer(self._plan.topic, **self._settings)
        try:
            await self._client.start()
        except KafkaError as error:
            with suppress(KafkaError):
                await self._client.stop()
            raise _refusal(error) from None
        self._reading = asyncio.ensure_future(self._read(deliver))

    async def _read(self, deliver: OnDelivery) -> None:
        while True:
            try:
                got = await self._client.getmany(timeout_ms=100)
            except KafkaError:
                await asyncio.sleep(0.2)
                continue
            for records in got.values():
                for record in records:
                    deliver(Delivery(record.value, None))
            if got and self._plan.acknowledge:
                with suppress(KafkaError):
                    await self._client.commit()

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading
        if self._client is None:
            return
        with suppress(TimeoutError, KafkaError):
            await asyncio.wait_for(self._client.stop(), _CLOSE_S)
