"""Producers that keep sending while a test stops and restarts what they talk to."""

import asyncio
import threading
from abc import ABC, abstractmethod
from functools import partial
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Message, Producer
from tests.kafka.real.support.families import AiokafkaFamily, JavaFamily
from tests.kafka.real.support.history import ClientLog, Entry
from tests.waiting import LONG_S, until

_PAD_BYTES = 100


class Steady(ABC):
    """Sends numbered records of one lane from `with` to its end, and keeps a log for the history checker.

    Sends are retried for as long as tests wait, so what a restart takes is never an error. They are
    idempotent unless the settings say otherwise: else the client would reorder what it sends again.
    """

    def __init__(self, topic: str, lane: str, interval_s: float) -> None:
        self.log = ClientLog()
        self.topic, self.lane = topic, lane
        self._interval_s = interval_s
        self._ending = threading.Event()

    def __enter__(self) -> Self:
        """Send; returns once the first ones are confirmed."""
        self._begin()
        try:
            self.goes_on()
        except BaseException:
            self._ending.set()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop sending and wait for all answers."""
        self._ending.set()
        ended = self._end()
        if kind is None:
            assert ended, f"{self.lane}: not all sends were answered"

    def goes_on(self, more: int = 50) -> None:
        """Return once so many more sends are confirmed.

        :raises TimeoutError: if they are not in time.
        """
        wanted = self._confirmed() + more
        until(lambda: self._confirmed() >= wanted, f"{self.lane}: {more} more sends are confirmed")

    def _confirmed(self) -> int:
        """How many sends are confirmed so far."""
        return len(self.log.acked)

    @abstractmethod
    def _begin(self) -> None:
        """Begin to send."""

    @abstractmethod
    def _end(self) -> bool:
        """Wait for all answers; returns whether they came."""


class SteadyProducer(Steady):
    """librdkafka in a thread of its own.

    :param lane: its name in the history, its key and its client id.
    :param interval_s: pause between sends.
    :param keyed: False for records without a key, which go to all partitions.
    :param settings: further librdkafka settings, with `_` for `.`.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        lane: str,
        *,
        interval_s: float = 0.005,
        keyed: bool = True,
        **settings: Any,
    ) -> None:
        super().__init__(topic, lane, interval_s)
        own = {
            "bootstrap.servers": bootstrap,
            "client.id": lane,
            "linger.ms": 1,
            "enable.idempotence": True,
            "message.timeout.ms": LONG_S * 1000,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 1000,
            # Lost connections are what these tests are about; they are not reported.
            "error_cb": lambda error: None,
            "sticky.partitioning.linger.ms": 0,
            "log_level": 0,
        }
        self._producer: Producer | None = Producer(
            own | {key.replace("_", "."): value for key, value in settings.items()}
        )
        self._key = lane if keyed else None
        self._thread = threading.Thread(target=self._run, name=lane, daemon=True)

    def _begin(self) -> None:
        self._thread.start()

    def _end(self) -> bool:
        self._thread.join(LONG_S)
        self._producer = None  # closes its connections
        return not self._thread.is_alive()

    def _run(self) -> None:
        number, producer = 0, self._producer
        assert producer is not None
        while not self._ending.is_set():
            entry = self.log.send(self.lane, number)
            try:
                producer.produce(self.topic, padded(entry), self._key, on_delivery=self._note(entry))
                number += 1
            except BufferError:
                self.log.sent.pop()
            # `poll` with a time returns at the next confirmation, and so would keep no pause.
            producer.poll(0)
            self._ending.wait(self._interval_s)
        producer.flush(LONG_S)

    def _note(self, entry: Entry) -> Any:
        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.log.ack(entry, message.partition(), message.offset())
            else:
                self.log.error(entry, error)

        return note


class SteadyAiokafka(Steady):
    """aiokafka, idempotent, on the loop of its family."""

    def __init__(
        self, family: AiokafkaFamily, bootstrap: str, topic: str, lane: str, interval_s: float = 0.005
    ) -> None:
        super().__init__(topic, lane, interval_s)
        self._family, self._bootstrap = family, bootstrap

    def _begin(self) -> None:
        self._done = self._family.run(self._run())

    def _end(self) -> bool:
        self._done.result(2 * LONG_S)
        return not self.log.unanswered

    async def _run(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            client_id=self.lane,
            enable_idempotence=True,
            request_timeout_ms=LONG_S * 1000,
            metadata_max_age_ms=1000,
        )
        answers: dict[Entry, asyncio.Future[Any]] = {}
        await producer.start()
        try:
            number = 0
            while not self._ending.is_set():
                entry = self.log.send(self.lane, number)
                answers[entry] = await producer.send(self.topic, padded(entry), key=self.lane.encode())
                answers[entry].add_done_callback(partial(self._note, entry))
                number += 1
                await asyncio.sleep(self._interval_s)
            await asyncio.wait(answers.values(), timeout=LONG_S)
        finally:
            await producer.stop()

    def _note(self, entry: Entry, answer: "asyncio.Future[Any]") -> None:
        error = answer.exception()
        if error is None:
            placed = answer.result()
            self.log.ack(entry, placed.partition, placed.offset)
        else:
            self.log.error(entry, repr(error))


class SteadyJava(Steady):
    """The Java client, idempotent, in the process of its family."""

    def __init__(
        self, family: JavaFamily, bootstrap: str, topic: str, lane: str, interval_s: float = 0.005
    ) -> None:
        super().__init__(topic, lane, interval_s)
        self._family, self._bootstrap = family, bootstrap

    def _begin(self) -> None:
        settings = {
            "bootstrap.servers": self._bootstrap,
            "client.id": self.lane,
            "enable.idempotence": "true",
            "delivery.timeout.ms": str(LONG_S * 1000),
            "max.block.ms": str(LONG_S * 1000),
            "reconnect.backoff.max.ms": "500",
            "linger.ms": "1",
        }
        self._number, self._events = self._family.ask(
            "stream",
            settings=settings,
            topic=self.topic,
            key=self.lane,
            padding=" " * _PAD_BYTES,
            interval_ms=round(self._interval_s * 1000),
        )

    def _confirmed(self) -> int:
        return sum("offset" in event for event in self._events[:])

    def _end(self) -> bool:
        self._family.ask("stop", self._number)
        until(
            lambda: any("done" in event for event in self._events[:]),
            "the Java producer ends",
            2 * LONG_S,
        )
        for event in self._events:
            self._note(event)
        return not self.log.unanswered

    def _note(self, event: dict[str, Any]) -> None:
        if "error" in event:
            raise AssertionError(f"the Java producer gave up: {event}")
        if "sent" in event:
            for number in range(event["sent"]):
                self.log.send(self.lane, number)
        elif "failed" in event:
            self.log.error(Entry(self.lane, event["record"]), f"{event['failed']}: {event['text']}")
        elif "offset" in event:
            self.log.ack(Entry(self.lane, event["record"]), event["partition"], event["offset"])


def padded(entry: Entry) -> bytes:
    """A record's value."""
    return entry.value + b" " * _PAD_BYTES
