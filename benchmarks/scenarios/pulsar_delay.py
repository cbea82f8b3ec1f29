"""Lateness of messages with a fixed delivery delay; none may be early."""

import struct
import threading
from dataclasses import dataclass, field
from time import time_ns
from typing import Any

import pulsar

from benchmarks.harness.arms import Bench
from benchmarks.harness.names import DIRECT, SLUICEGATE_DELAY
from benchmarks.harness.pulsar_arms import FREE, LATE, LATE_MS
from benchmarks.harness.pulsar_clients import Receipts, connected, paced
from benchmarks.harness.samples import percentile
from benchmarks.harness.scenario import Scenario

_PER_S = 400
_ANSWER_S = 60
_DUE = struct.Struct(">q")
_TYPES = {"shared": pulsar.ConsumerType.Shared, "exclusive": pulsar.ConsumerType.Exclusive}
"""On Shared subscriptions the broker delays, on Exclusive ones only the gate does."""


@dataclass(slots=True)
class Arrivals:
    """Takes the messages of one subscription and writes down how late they were, in ms."""

    expected: int
    asked: bool
    """Whether the message itself says when it is due, not its publish time."""
    late_ms: list[float] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    def __call__(self, consumer: Any, message: Any) -> None:
        """Take one message; calls come one after another, from the client's own thread."""
        now_ms = time_ns() / 1e6
        due_ms = _DUE.unpack(message.data())[0] if self.asked else message.publish_timestamp() + LATE_MS
        self.late_ms.append(now_ms - due_ms)
        consumer.acknowledge(message)
        if len(self.late_ms) == self.expected:
            self.done.set()

    def values(self, name: str) -> dict[str, float]:
        """The figures of this subscription, once all messages are here.

        :raises RuntimeError: if they are not within 60 s.
        """
        if not self.done.wait(_ANSWER_S):
            raise RuntimeError(f"{len(self.late_ms)} of {self.expected} messages came to {name}")
        return {
            f"{name}_early": float(sum(1 for late in self.late_ms if late < 0)),
            f"{name}_p50_late_ms": percentile(self.late_ms, 0.5),
            f"{name}_p99_late_ms": percentile(self.late_ms, 0.99),
            f"{name}_max_late_ms": max(self.late_ms),
        }


def _delay(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    """Through the gate nobody asks for a delay; directly the producer does, and only Shared is delayed."""
    arm, asked = bench.pulsar.arm(name), name == DIRECT
    count = _PER_S * (2 if quick else 8)
    types = ("shared",) if asked else tuple(_TYPES)
    arrivals = {each: Arrivals(count, asked) for each in types}
    with bench.pulsar.fresh_topic(FREE if asked else LATE) as topic, connected(arm.route) as client:
        for each, arrived in arrivals.items():
            client.subscribe(topic, each, _TYPES[each], message_listener=arrived)
        _send(client, topic, count, asked=asked)
        delays = [arrived.values(each) for each, arrived in arrivals.items()]
    return {key: value for values in delays for key, value in values.items()}


def _send(client: Any, topic: str, count: int, *, asked: bool) -> None:
    receipts = Receipts(count)
    producer = client.create_producer(topic, block_if_queue_full=True)
    for _ in paced(count, _PER_S):
        due_ms = time_ns() // 1_000_000 + LATE_MS
        producer.send_async(_DUE.pack(due_ms), receipts, deliver_at=due_ms if asked else None)
    receipts.wait(_ANSWER_S)


SCENARIOS = (
    Scenario(
        "pulsar-delay",
        "500 ms of fixed delay: how late on Shared (broker, tick 100 ms) and Exclusive (gate)",
        (DIRECT, SLUICEGATE_DELAY),
        _delay,
        rounds=3,
        cold_round=False,
    ),
)
