"""What the wrappers of client libraries add to a send; what is below each library's send goes nowhere."""

import asyncio
import itertools
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import aiokafka
import confluent_kafka
import danube
import pulsar

from benchmarks.harness.arms import Bench
from benchmarks.harness.names import ENGINE
from benchmarks.harness.scenario import Scenario
from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.sending import Publisher
from sluicegate.config.models import GatewayConfig
from sluicegate.embedded import PolicyEngine
from sluicegate.model import ANONYMOUS, Level, Message, PolicyLayer, Setting, Source
from sluicegate.runtime.plugins import load_plugins
from sluicegate_danube.client import Producer as DanubeProducer
from sluicegate_kafka.client import AIOKafkaProducer
from sluicegate_kafka.client import Producer as RdProducer
from sluicegate_pulsar.client import Producer as PulsarProducer

_ROUNDS = 9
_TOPIC = "orders.eu"
_VALUE = b"x" * 100
_FAR = 10_000_000
"""Above what is sent: nothing waits."""

Turn = Callable[[int], None]
"""Sends a number of messages."""


def _engine(system: str, directory: str) -> PolicyEngine:
    policies = {"max_message_size": _FAR, "max_publish_rate": _FAR, "max_producers_per_topic": 10}
    settings = {name: Setting(value, Source.FILE) for name, value in policies.items()}
    model = load_plugins(()).drivers[system].config_model
    entry = model(name="main", system=system, bootstrap=("127.0.0.1:1",))
    config = GatewayConfig(brokers=(entry,), state_dir=directory)
    return PolicyEngine(config, [PolicyLayer(Level.BROKER, "", settings)])


async def _nowhere(self: object, *arguments: object, **options: object) -> None:
    """In place of a library's send."""


def _awaiting(runner: asyncio.Runner, send: Callable[[], Awaitable[object]]) -> Turn:
    async def turn(count: int) -> None:
        for _ in itertools.repeat(None, count):
            await send()

    return lambda count: runner.run(turn(count))


@contextmanager
def _aiokafka(engine: PolicyEngine) -> Iterator[dict[str, Turn]]:
    async def make(kind: Callable[..., Any], **options: Any) -> Any:
        return kind(bootstrap_servers="127.0.0.1:1", **options)

    with asyncio.Runner() as runner, patch.object(aiokafka.AIOKafkaProducer, "send", _nowhere):
        bare = runner.run(make(aiokafka.AIOKafkaProducer))
        wrapped = runner.run(make(AIOKafkaProducer, policies=engine))
        yield {
            "bare": _awaiting(runner, lambda: bare.send(_TOPIC, _VALUE)),
            "wrapped": _awaiting(runner, lambda: wrapped.send(_TOPIC, _VALUE)),
        }
        for each in (bare, wrapped):
            runner.run(each.stop())


@contextmanager
def _confluent(engine: PolicyEngine) -> Iterator[dict[str, Turn]]:
    # Its send is C: messages go into its queue, which is emptied after each turn. No broker is there.
    settings = {
        "bootstrap.servers": "127.0.0.1:1",
        "queue.buffering.max.messages": _FAR,
        "reconnect.backoff.ms": 10_000,
        "log_level": 0,
    }
    bare, wrapped = confluent_kafka.Producer(settings), RdProducer(settings, policies=engine)

    def sending(producer: confluent_kafka.Producer) -> Turn:
        def turn(count: int) -> None:
            for _ in itertools.repeat(None, count):
                producer.produce(_TOPIC, _VALUE)

        return turn

    yield {"bare": sending(bare), "wrapped": sending(wrapped)}
    for each in (bare, wrapped):
        each.purge()
        each.close()


class _NoProducer:
    """In place of pulsar-client's producer in C++."""

    def send_async(self, message: object, callback: object) -> None:
        """Send nothing."""

    def close(self) -> None:
        """Close nothing."""


@contextmanager
def _pulsar(engine: PolicyEngine) -> Iterator[dict[str, Turn]]:
    bare = pulsar.Producer()
    bare._producer, bare._client = _NoProducer(), None  # noqa: SLF001
    bare._schema = pulsar.schema.BytesSchema()  # noqa: SLF001
    policed = PolicedClient(engine, ANONYMOUS, "", None)
    wrapped = PulsarProducer(bare, policed, "persistent://public/default/orders")

    def sending(producer: pulsar.Producer) -> Turn:
        def turn(count: int) -> None:
            for _ in itertools.repeat(None, count):
                producer.send_async(_VALUE, print)

        return turn

    yield {"bare": sending(bare), "wrapped": sending(wrapped)}


@contextmanager
def _danube(engine: PolicyEngine) -> Iterator[dict[str, Turn]]:
    bare, wrapped = danube.Producer.__new__(danube.Producer), DanubeProducer.__new__(DanubeProducer)
    wrapped.policed = PolicedClient(engine, ANONYMOUS, "", None)
    wrapped._publisher = Publisher(wrapped.policed, "/default/orders", Message)  # noqa: SLF001
    with asyncio.Runner() as runner, patch.object(danube.Producer, "send", _nowhere):
        yield {
            "bare": _awaiting(runner, lambda: bare.send(_VALUE)),
            "wrapped": _awaiting(runner, lambda: wrapped.send(_VALUE)),
        }


_LIBRARIES = {
    "aiokafka": ("kafka", _aiokafka),
    "confluent_kafka": ("kafka", _confluent),
    "pulsar_client": ("pulsar", _pulsar),
    "danube_client": ("danube", _danube),
}


def _measure(_: Bench, _name: str, quick: bool) -> dict[str, float]:
    count = 2_000 if quick else 20_000
    figures = {}
    for library, (system, opened) in _LIBRARIES.items():
        with ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            engine = stack.enter_context(_engine(system, directory))
            turns = stack.enter_context(opened(engine))
            best = dict.fromkeys(turns, float("inf"))
            for _round in range(_ROUNDS):  # in turn, so that what else the machine does meets all alike
                for arm, turn in turns.items():
                    best[arm] = min(best[arm], _send_us(turn, count))
        figures[f"{library}_bare_us"] = best["bare"]
        figures[f"{library}_adds_us"] = best["wrapped"] - best["bare"]
    return figures


def _send_us(turn: Turn, count: int) -> float:
    """CPU microseconds of one send."""
    start = time.thread_time_ns()
    turn(count)
    return (time.thread_time_ns() - start) / count / 1000


SCENARIOS = (
    Scenario(
        "client-wrappers",
        "what the wrappers of client libraries add to a send",
        (ENGINE,),
        _measure,
        cold_round=False,
    ),
)
