"""pulsar-client. It blocks, so its calls run in threads.

It must not write to a Python logger: its own threads do, and now and then that aborts the process when it
ends. Each client here has a connection of its own, as a process of its own would. Clients are closed and
never shut down: `shutdown` was seen to stop every other client of the process for 20 s.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import pulsar

from sluicegate_reports.runner.clients.base import (
    Delivery,
    DrivenProducer,
    FailedError,
    OnDelivery,
    RefusedError,
)
from sluicegate_reports.runner.plan import ArmPlan, ConsumerPlan, ProducerPlan

T = TypeVar("T")
_OPERATION_S = 10
_SEND_MS = 30_000
_POLL_MS = 100
_THREADS = ThreadPoolExecutor(256, "pulsar-clients")
_NO_ANSWER = {
    "Timeout",
    "Disconnected",
    "AlreadyClosed",
    "ProducerQueueIsFull",
    "ConnectError",
    "UnknownError",
}
_KINDS = {
    "shared": pulsar.ConsumerType.Shared,
    "exclusive": pulsar.ConsumerType.Exclusive,
    "failover": pulsar.ConsumerType.Failover,
}


async def _blocking(call: Callable[..., T], *arguments: Any, **options: Any) -> T:
    work = partial(call, *arguments, **options)
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)


def _refusal(name: str, text: str = "") -> RefusedError:
    return (FailedError if name in _NO_ANSWER else RefusedError)(name, text)


def _refusal_of(error: BaseException) -> RefusedError:
    return _refusal(type(error).__name__, " ".join(str(error).split()))


class Driver:
    """Clients of one arm."""

    def __init__(self, plan: ArmPlan) -> None:
        self._url = "pulsar://" + ",".join(plan.addresses)

    def producer(self, plan: ProducerPlan) -> "_Producer":
        """A producer with a client of its own."""
        return _Producer(self._url, plan)

    def consumer(self, plan: ConsumerPlan) -> "_Consumer":
        """A consumer with a client of its own."""
        return _Consumer(self._url, plan)


def _client(url: str) -> Any:
    return pulsar.Client(
        url,
        operation_timeout_seconds=_OPERATION_S,
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
    )


class _Producer(DrivenProducer):
    def __init__(self, url: str, plan: ProducerPlan) -> None:
        self._url = url
        self._plan = plan
        self._client: Any = None
        self._producer: Any = None
        self._delay = {"deliver_after": timedelta(milliseconds=plan.delay_ms)} if plan.delay_ms else {}

    async def attach(self) -> None:
        if self._client is None:
            self._client = _client(self._url)
        try:
            self._producer = await _blocking(
                self._client.create_producer,
                self._plan.topic,
                producer_name=self._plan.name,
                send_timeout_millis=_SEND_MS,
                max_pending_messages=self._plan.in_flight + 1,
            )
        except pulsar.PulsarException as error:
            raise _refusal_of(error) from None

    async def publish(self, payload: bytes) -> None:
        loop = asyncio.get_running_loop()
        response: asyncio.Future[Any] = loop.create_future()

        def answered(result: Any, _: Any) -> None:
            # Answers may come when the run is over and its loop closed.
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, result)

        def settle(result: Any) -> None:
            if not response.done():
                response.set_result(result)

        try:
            self._producer.send_async(payload, answered, **self._delay)
        except pulsar.PulsarException as error:
            raise _refusal_of(error) from None
        result = await response
        if result != pulsar.Result.Ok:
            raise _refusal(result.name)

    async def close(self) -> None:
        if self._client is not None:
            await _blocking(self._client.close)


class _Consumer:
    def __init__(self, url: str, plan: ConsumerPlan) -> None:
        self._url = url
        self._plan = plan
        self._client: Any = None
        self._consumer: Any = None
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    async def attach(self, deliver: OnDelivery) -> None:
        if self._client is None:
            self._client = _client(self._url)
        try:
            self._consumer = await _blocking(
                self._client.subscribe,
                self._plan.topic,
                self._plan.subscription,
                consumer_type=_KINDS[self._plan.kind],
                consumer_name=self._plan.name,
                initial_position=pulsar.InitialPosition.Earliest,
            )
        except pulsar.PulsarException as error:
            raise _refusal_of(error) from None
        self._thread = threading.Thread(target=self._read, args=(deliver,), daemon=True)
        self._thread.start()

    def _read(self, deliver: OnDelivery) -> None:
        while not self._ending.is_set():
            try:
                message = self._consumer.receive(timeout_millis=_POLL_MS)
            except pulsar.Timeout:
                continue
            except pulsar.PulsarException:
                if self._ending.wait(0.1):
                    return
                continue
            acknowledge = partial(self._consumer.acknowledge, message)
            deliver(Delivery(message.data(), acknowledge if self._plan.acknowledge else None))

    async def close(self) -> None:
        self._ending.set()
        if self._thread is not None:
            await _blocking(self._thread.join, 5.0)
        if self._client is not None:
            await _blocking(self._client.close)
