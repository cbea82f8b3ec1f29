"""A producer that goes on sending while a test pulls the rug from under it."""

import threading
import time
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, Message, Producer
from tests.kafka.real.support.history import ClientLog, Entry

_PATIENCE_S = 60


class SteadyProducer:
    """librdkafka in a thread of its own, sending numbered records of one lane from `with` to its end.

    Sends are retried for a minute, so what a restart takes is never an error.

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
        interval_s: float = 0.002,
        pad_bytes: int = 100,
        keyed: bool = True,
        **settings: Any,
    ) -> None:
        own = {
            "bootstrap.servers": bootstrap,
            "client.id": lane,
            "linger.ms": 1,
            "message.timeout.ms": _PATIENCE_S * 1000,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 1000,
            # Lost connections are what these tests are about; they are reported to nobody.
            "error_cb": lambda error: None,
            "sticky.partitioning.linger.ms": 0,
            "log_level": 0,
        }
        self.log = ClientLog()
        self.longest_gap_s = 0.0
        """Longest time between two confirmations so far."""
        self._producer: Producer | None = Producer(
            own | {key.replace("_", "."): value for key, value in settings.items()}
        )
        self._topic, self._lane = topic, lane
        self._key = lane if keyed else None
        self._interval_s = interval_s
        self._padding = b" " * pad_bytes
        self._last_ack = 0.0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=lane, daemon=True)

    def __enter__(self) -> Self:
        """Send; returns once the first ones are confirmed."""
        self._thread.start()
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
        self._thread.join(_PATIENCE_S)
        self._producer = None  # closes its connections
        if kind is None:
            assert not self._thread.is_alive(), f"{self._lane}: not all sends were answered"

    def goes_on(self, more: int = 50, timeout_s: float = 30) -> None:
        """Return once so many more sends are confirmed.

        :raises TimeoutError: if they are not in time.
        """
        wanted = len(self.log.acked) + more
        deadline = time.monotonic() + timeout_s
        while len(self.log.acked) < wanted:
            if time.monotonic() > deadline:
                have = len(self.log.acked) - wanted + more
                raise TimeoutError(f"{self._lane}: {have} of {more} sends confirmed in {timeout_s} s")
            time.sleep(0.01)

    def forget_gaps(self) -> None:
        """Measure `longest_gap_s` from now on."""
        self.longest_gap_s, self._last_ack = 0.0, time.monotonic()

    def _run(self) -> None:
        number, producer = 0, self._producer
        assert producer is not None
        while not self._ending.is_set():
            entry = self.log.send(self._lane, number)
            try:
                producer.produce(
                    self._topic, entry.value + self._padding, self._key, on_delivery=self._note(entry)
                )
                number += 1
            except BufferError:
                self.log.sent.pop()
            producer.poll(self._interval_s)
        producer.flush(_PATIENCE_S)

    def _note(self, entry: Entry) -> Any:
        def note(error: KafkaError | None, message: Message) -> None:
            now = time.monotonic()
            if self._last_ack:
                self.longest_gap_s = max(self.longest_gap_s, now - self._last_ack)
            self._last_ack = now
            if error is None:
                self.log.ack(entry, message.partition(), message.offset())
            else:
                self.log.error(entry, error)

        return note
