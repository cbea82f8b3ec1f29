"""pulsar-client, which is the C++ client below its Python."""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pulsar
from tests.pulsar.real.support.family import (
    ANSWER_S,
    Form,
    Keys,
    Published,
    Received,
    RefusedError,
    Subscription,
)
from tests.waiting import until

_KEY_NAME = "tests"
_FORMS: dict[Form, dict[str, Any]] = {
    Form.SINGLE: {},
    Form.BATCHED: {"batching_enabled": True, "batching_max_publish_delay_ms": 100},
    # Only what is larger than the broker's limit is cut, 5 MiB by default.
    Form.CHUNKED: {"chunking_enabled": True},
    Form.COMPRESSED: {
        "batching_enabled": True,
        "batching_max_publish_delay_ms": 100,
        "compression_type": pulsar.CompressionType.LZ4,
    },
    Form.ENCRYPTED: {},
}
_TYPES = {
    Subscription.EXCLUSIVE: pulsar.ConsumerType.Exclusive,
    Subscription.SHARED: pulsar.ConsumerType.Shared,
    Subscription.FAILOVER: pulsar.ConsumerType.Failover,
    Subscription.KEY_SHARED: pulsar.ConsumerType.KeyShared,
}


class PythonFamily:
    """The client's names of results (`ProducerBusy`); it does not tell texts.

    :param keys: what encrypted messages are encrypted with.
    """

    name = "python"

    def __init__(self, keys: Keys) -> None:
        self._reader = pulsar.CryptoKeyReader(str(keys.public), str(keys.private))

    def produce(
        self,
        url: str,
        topic: str,
        values: Sequence[str],
        *,
        form: Form = Form.SINGLE,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        deliver_after_ms: int | None = None,
        deliver_at_ms: int | None = None,
        interval_ms: int = 0,
        client: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> "PythonProducer":
        """As `Family.produce`."""
        own = _FORMS[form] | {"send_timeout_millis": 1_000 * ANSWER_S, "block_if_queue_full": True}
        if form is Form.ENCRYPTED:
            own |= {"encryption_key": _KEY_NAME, "crypto_key_reader": self._reader}
        message: dict[str, Any] = {"properties": dict(properties or {})}
        if deliver_after_ms is not None:
            message["deliver_after"] = timedelta(milliseconds=deliver_after_ms)
        if deliver_at_ms is not None:
            message["deliver_at"] = deliver_at_ms
        producer = PythonProducer(connect(url, **(client or {})), topic, own | dict(settings or {}))
        if interval_ms:
            producer.send_slowly(values, keys, message, interval_ms / 1_000)
        else:
            producer.send(values, keys, message)
        return producer

    def consume(
        self,
        url: str,
        topic: str,
        subscription: str,
        kind: Subscription = Subscription.SHARED,
        *,
        nacks: int = 0,
        acknowledge: bool = True,
        client: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> "PythonConsumer":
        """As `Family.consume`."""
        own = {
            "consumer_type": _TYPES[kind],
            "initial_position": pulsar.InitialPosition.Earliest,
            "crypto_key_reader": self._reader,
            "negative_ack_redelivery_delay_ms": 200,
        }
        return PythonConsumer(
            connect(url, **(client or {})),
            {"topic": topic, "subscription_name": subscription} | own | dict(settings or {}),
            nacks=nacks,
            acknowledge=acknowledge,
        )

    def read(self, url: str, topic: str) -> "PythonReader":
        """As `Family.read`."""
        return PythonReader(connect(url), topic, self._reader)

    def close(self) -> None:
        """Nothing is left."""


class PythonProducer:
    """One producer with a client of its own."""

    def __init__(self, client: Any, topic: str, settings: Mapping[str, Any]) -> None:
        self._client = client
        self._published: list[Published] = []
        self._sent = 0
        self._stopping = threading.Event()
        self._slow: threading.Thread | None = None
        try:
            self._producer = client.create_producer(topic, **settings)
        except pulsar.PulsarException as error:
            client.close()
            raise RefusedError(type(error).__name__) from None

    @property
    def published(self) -> list[Published]:
        """As `Sending.published`."""
        return list(self._published)

    def send(self, values: Sequence[str], keys: Sequence[str], message: Mapping[str, Any]) -> None:
        """Send values; their answers come in another thread."""
        for number, value in enumerate(values):
            key = {"partition_key": keys[number % len(keys)]} if keys else {}
            self._sent += 1
            self._producer.send_async(value.encode(), self._noted(value), **message, **key)

    def send_slowly(
        self, values: Sequence[str], keys: Sequence[str], message: Mapping[str, Any], interval_s: float
    ) -> None:
        """Send values in a thread, with a pause after each, until all are sent or `stop` is called."""

        def run() -> None:
            for number, value in enumerate(values):
                if self._stopping.is_set():
                    return
                self.send([value], keys[number % len(keys) :][:1] if keys else (), message)
                self._stopping.wait(interval_s)

        self._slow = threading.Thread(target=run, name="python producer", daemon=True)
        self._slow.start()

    def stop(self) -> None:
        """As `Sending.stop`."""
        self._stopping.set()

    def close(self) -> list[Published]:
        """As `Sending.close`."""
        if self._slow:
            self._slow.join()
        try:
            with suppress(pulsar.PulsarException):
                self._producer.flush()
            until(lambda: len(self._published) >= self._sent, "all is answered", 2 * ANSWER_S)
        finally:
            self._client.close()
        return self.published

    def abandon(self) -> None:
        """Stop without waiting for answers."""
        self.stop()
        if self._slow:
            self._slow.join()
        self._client.shutdown()

    def _noted(self, value: str) -> Any:
        def note(result: Any, placed: Any) -> None:
            failed = result != pulsar.Result.Ok
            entry = None if failed else (placed.ledger_id(), placed.entry_id())
            error = result.name if failed else ""
            self._published.append(Published(value, entry, error, at_ms=time.time_ns() // 1_000_000))

        return note


class PythonConsumer:
    """One consumer with a client of its own, and a thread that receives."""

    def __init__(self, client: Any, settings: Mapping[str, Any], *, nacks: int, acknowledge: bool) -> None:
        self._client = client
        self._received: list[Received] = []
        self._nacks, self._acknowledge = nacks, acknowledge
        self._stopping = threading.Event()
        try:
            self._consumer = client.subscribe(**settings)
        except pulsar.PulsarException as error:
            client.close()
            raise RefusedError(type(error).__name__) from None
        self._thread = threading.Thread(target=self._receive, name="python consumer", daemon=True)
        self._thread.start()

    @property
    def received(self) -> list[Received]:
        """As `Receiving.received`."""
        return list(self._received)

    def close(self) -> None:
        """As `Receiving.close`."""
        self._stopping.set()
        self._thread.join(ANSWER_S)
        self._client.close()

    def _receive(self) -> None:
        while not self._stopping.is_set():
            try:
                message = self._consumer.receive(timeout_millis=100)
            except pulsar.Timeout:
                continue
            self._received.append(_told(message))
            if self._nacks:
                self._nacks -= 1
                self._consumer.negative_acknowledge(message)
            elif self._acknowledge:
                # The connection may go in this moment; the message then comes again.
                with suppress(pulsar.PulsarException):
                    self._consumer.acknowledge(message)


class PythonReader:
    """One reader with a client of its own, and a thread that receives."""

    def __init__(self, client: Any, topic: str, keys: Any) -> None:
        self._client = client
        self._received: list[Received] = []
        self._stopping = threading.Event()
        self._reader = client.create_reader(topic, pulsar.MessageId.earliest, crypto_key_reader=keys)
        self._thread = threading.Thread(target=self._receive, name="python reader", daemon=True)
        self._thread.start()

    @property
    def received(self) -> list[Received]:
        """As `Receiving.received`."""
        return list(self._received)

    def close(self) -> None:
        """As `Receiving.close`."""
        self._stopping.set()
        self._thread.join(ANSWER_S)
        self._client.close()

    def _receive(self) -> None:
        while not self._stopping.is_set():
            with suppress(pulsar.Timeout):
                self._received.append(_told(self._reader.read_next(timeout_millis=100)))


def connect(url: str, **settings: Any) -> Any:
    """A client that prints warnings alone and gives up after 10 s."""
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn)
    return pulsar.Client(url, **{"operation_timeout_seconds": 60, "logger": logger} | settings)


def read_topic(url: str, topic: str) -> list[Received]:
    """All messages of a topic from its start to its present end; what is encrypted fails."""
    client = connect(url)
    try:
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        found = []
        while reader.has_message_available():
            found.append(_told(reader.read_next(ANSWER_S * 1_000)))
        return found
    finally:
        client.close()


def _told(message: Any) -> Received:
    placed = message.message_id()
    return Received(
        message.data().decode(),
        message.partition_key(),
        message.topic_name(),
        (placed.ledger_id(), placed.entry_id()),
        message.publish_timestamp(),
        message.redelivery_count(),
        message.properties(),
        time.time_ns() // 1_000_000,
    )
