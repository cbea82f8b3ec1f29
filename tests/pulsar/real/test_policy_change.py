"""Policies that change while clients work: at once, for live producers, without errors."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.pulsar.real.conftest import NewTopic
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.family import Family, collect, numbered
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.history import judge
from tests.pulsar.real.support.java import JavaFamily
from tests.pulsar.real.support.python import PythonFamily, read_topic
from tests.pulsar.real.support.raw import RawClient
from tests.waiting import until

_SMALL, _LARGE = 1_000, 9_000
_BETWEEN = b"v" * 5_000
"""A message that one of the two sizes lets pass."""
_FROM_ELSEWHERE = """
import sys
from sluicegate.model import Level
from sluicegate.store import SqliteStore
store = SqliteStore(sys.argv[1])
for size in sys.stdin:
    store.set(Level.TOPIC, sys.argv[2], "max_message_size", int(size), "test")
    print("done", flush=True)
"""

Change = Callable[[int], None]


class Probe:
    """Tells which size is in force for a topic, by a producer that was there before the change."""

    def __init__(self, client: RawClient, topic: str) -> None:
        self._client = client
        self._sent = 0
        client.producer(topic)

    @property
    def passes(self) -> bool:
        """Whether the message is accepted."""
        self._sent += 1
        return self._client.publish(_BETWEEN, sequence_id=self._sent).HasField("send_receipt")

    def until(self, passes: bool) -> None:
        """Return once the message is accepted, or refused."""
        until(lambda: self.passes is passes, "the change is in force")


@pytest.mark.seed("S1-024", "S1-125")
@pytest.mark.parametrize("way", ["file", "store"])
def test_a_change_takes_effect_while_clients_work(
    pulsar: PulsarBroker, gate: Gate, new_topic: NewTopic, python: PythonFamily, java: JavaFamily, way: str
) -> None:
    topic, busy = new_topic("probed"), [new_topic(), new_topic()]
    families: list[Family] = [python, java]
    gate.apply({"topics": [{"name": name, "max_message_size": _LARGE} for name in (topic, *busy)]})
    store = os.fspath(gate.directory / "state" / "policies.db")
    command = [sys.executable, "-c", _FROM_ELSEWHERE, store, topic]

    def in_file(size: int) -> None:
        text = gate.file.read_text()
        for other in (_SMALL, _LARGE):
            text = text.replace(f"max_message_size: {other}", f"max_message_size: {size}")
        draft = gate.file.with_suffix(".new")
        draft.write_text(text)
        draft.replace(gate.file)

    with (
        ThreadPoolExecutor() as pool,
        RawClient(gate.bootstrap) as raw,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer,
    ):

        def in_store(size: int) -> None:
            assert writer.stdin is not None
            assert writer.stdout is not None
            writer.stdin.write(f"{size}\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == "done\n"

        probe = Probe(raw, topic)
        assert probe.passes
        sending = [
            pool.submit(family.produce, gate.service_url, topic, numbered(600), interval_ms=5)
            for family, topic in zip(families, busy, strict=True)
        ]
        change: Change = in_file if way == "file" else in_store
        for size in (_SMALL, _LARGE, _SMALL):
            change(size)
            probe.until(size == _LARGE)
        published = [one.result().close() for one in sending]
    for told, one in zip(published, busy, strict=True):
        assert all(message.entry for message in told)
        judge(told, read_topic(pulsar.service_url, one)).assert_clean()


@pytest.mark.longer(but="python")
@pytest.mark.seed("S1-024", "S1-063")
def test_lifting_a_rate_releases_waiting_messages(gate: Gate, new_topic: NewTopic, family: Family) -> None:
    topic, count = new_topic(), 900  # as many seconds, if the rate stayed
    gate.apply({"topics": [{"name": topic, "max_publish_rate": 1, "burst_seconds": 1}]})
    producer = family.produce(gate.service_url, topic, numbered(count))
    until(lambda: producer.published, "the first one is through")
    gate.decided(topic=topic, action="delay")
    assert len(producer.published) < count // 2
    gate.apply({"topics": [{"name": topic, "max_publish_rate": 0}]})
    assert all(one.entry for one in producer.close())


@pytest.mark.longer(but="python")
@pytest.mark.seed("S1-024")
def test_a_limit_below_the_current_count_detaches_nobody(
    gate: Gate, new_topic: NewTopic, family: Family
) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, "max_producers_per_topic": 5}]})
    consumers = [family.consume(gate.service_url, topic, name) for name in ("one", "two")]
    producers = [
        family.produce(gate.service_url, topic, numbered(100, lane), interval_ms=10) for lane in "ab"
    ]
    limits = ("max_producers_per_topic", "max_consumers_per_topic", "max_subscriptions_per_topic")
    gate.apply({"topics": [{"name": topic, **dict.fromkeys(limits, 1)}]})
    for producer in producers:
        assert all(one.entry for one in producer.close())
    for consumer in consumers:
        collect(consumer, 200)
        consumer.close()
