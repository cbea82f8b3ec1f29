"""Producers that send to Pulsar as fast as possible, and record when each receipt arrived."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pulsar

from benchmarks.harness.pulsar_clients import Route, connected
from benchmarks.harness.saturation import Saturation

_MESSAGE_BYTES = 100
_LOOK_S = 0.1


@dataclass(slots=True)
class Saturating:
    """One producer with a thread, which sends while `go` is set, until `stop` is set."""

    producer: Any
    stop: threading.Event
    go: threading.Event
    times: list[float] = field(default_factory=list)
    """Seconds (monotonic) of each receipt."""
    failed: int = 0

    def run(self) -> None:
        """Send; messages without a receipt at the end are ignored."""
        value = bytes(_MESSAGE_BYTES)
        while not self.stop.is_set():
            if self.go.wait(_LOOK_S):
                self.producer.send_async(value, self._received)

    def _received(self, result: object, _message: object) -> None:
        if self.stop.is_set():
            return
        if result == pulsar.Result.Ok:
            self.times.append(time.monotonic())
        else:
            self.failed += 1


def saturating_producer(client: Any, topic: str, pending: int) -> Any:
    """A producer without batches.

    :param pending: messages without a receipt at which it waits.
    """
    return client.create_producer(topic, max_pending_messages=pending, block_if_queue_full=True)


@contextmanager
def sending(*senders: Saturating) -> Iterator[None]:
    """Run producers that share one `stop` for as long as the context lasts."""
    threads = [threading.Thread(target=sender.run) for sender in senders]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for sender in senders:
            sender.stop.set()
        for thread in threads:
            thread.join()
        for sender in senders:
            sender.producer.flush()  # a receipt for a closed producer would be an error


def saturate(route: Route, topic: str, *, producers: int, pending: int, seconds: float) -> Saturation:
    """Have several equal producers send as fast as possible, each on its own connection."""
    stop, go = threading.Event(), threading.Event()
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(route)) for _ in range(producers)]
        senders = [Saturating(saturating_producer(client, topic, pending), stop, go) for client in clients]
        with sending(*senders):
            start = time.monotonic()
            go.set()
            time.sleep(seconds)
    return Saturation(start, [sender.times for sender in senders], sum(sender.failed for sender in senders))
