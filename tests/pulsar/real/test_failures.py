"""What a fixed delay still promises when a process dies."""

import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import pytest
from tests.pulsar.real.conftest import NewGate, NewTopic
from tests.pulsar.real.support.admin import Admin
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.family import (
    ANSWER_S,
    Family,
    Published,
    Received,
    Receiving,
    Sending,
    Subscription,
    collect,
    numbered,
)
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.history import judge
from tests.pulsar.real.support.java import JavaFamily
from tests.pulsar.real.support.python import PythonFamily, read_topic
from tests.waiting import until

DELAY_MS, INTERVAL_MS = 1_000, 20
MOST = 10_000  # for 200 s; each test stops its producers long before
KINDS = (Subscription.SHARED, Subscription.EXCLUSIVE)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class Run:
    """One topic while a producer fills it and a consumer of each kind empties it.

    :param url: of the broker or the gateway.
    :param deliver_after_ms: what the producer asks for, where there is no gateway to do so.
    """

    family: Family
    url: str
    topic: str
    deliver_after_ms: int | None
    consumers: dict[str, Receiving] = field(default_factory=dict)
    published: list[Published] = field(default_factory=list)
    _sending: Sending | None = None

    def attach(self, admin: Admin) -> None:
        """Attach the consumers."""
        # Without it the broker would drop ledgers that all others have acknowledged.
        admin.create_subscription(self.topic, "keeps")
        self.consumers = {kind: self.family.consume(self.url, self.topic, kind, kind) for kind in KINDS}

    def begin(self) -> None:
        """Begin to send, until `end`."""
        self._sending = self.family.produce(
            self.url,
            self.topic,
            numbered(MOST, self.family.name),
            deliver_after_ms=self.deliver_after_ms,
            interval_ms=INTERVAL_MS,
        )

    def delivered(self) -> None:
        """Return once all consumers have got something."""
        for consumer in self.consumers.values():
            collect(consumer, 10)

    def end(self, admin: Admin, back_ms: int) -> None:
        """Send on until the new process has confirmed something, and return once all is acknowledged.

        :param back_ms: when the process was there again.
        """
        sending = self._sending
        assert sending is not None
        until(
            lambda: any(one.at_ms > back_ms for one in sending.published[-1:]),
            "the new process confirms",
            2 * ANSWER_S,
        )
        sending.stop()
        self.published = sending.close()
        assert all(one.entry for one in self.published)
        confirmed = {one.value for one in self.published}
        for consumer in self.consumers.values():
            until(
                lambda consumer=consumer: confirmed <= {one.value for one in consumer.received},  # type: ignore[misc]
                "all that is confirmed is received",
                2 * ANSWER_S,
            )
        until(lambda: backlog(admin, self.topic) == 0, "all is acknowledged")
        for consumer in self.consumers.values():
            consumer.close()

    def check(self, stored: list[Received], killed_ms: int) -> None:
        """Nothing lost, nothing early, and stored twice only what was under way.

        Consumers may get a message twice: Pulsar promises it at least once, and each connection that is lost
        takes acknowledgements with it, also one of a client that a stalled machine cuts off.

        :param stored: a read-back.
        :param killed_ms: when the process ended.
        """
        judge(self.published, stored).assert_clean(but="duplicated")
        copies = Counter(one.value for one in stored)
        before = {one.value for one in self.published if one.at_ms < killed_ms}
        assert not [value for value in before if copies[value] > 1], "confirmed, and sent again nevertheless"
        assert before
        assert len(before) < len(self.published)
        # Only the gate counts a delay from the time of publishing: a client counts from an earlier moment.
        if self.deliver_after_ms is None:
            for consumer in self.consumers.values():
                assert min(one.at_ms - one.published_ms for one in consumer.received) >= DELAY_MS


def backlog(admin: Admin, topic: str) -> int:
    told = admin.stats(topic)["subscriptions"]
    return sum(told[kind]["msgBacklog"] for kind in KINDS)


@pytest.mark.seed("S2-018", "S2-019", "S2-027")
def test_the_broker_is_killed_while_clients_work(
    own_pulsar: PulsarBroker, python: PythonFamily, java: JavaFamily, tmp_path: Path
) -> None:
    """One kill for the same work done directly and through the gateway."""
    families: list[Family] = [java, python]  # the slower one to begin is first
    topics = {
        (way, family.name): f"persistent://public/default/{way}-{family.name}"
        for way, family in product(("direct", "gate"), families)
    }
    fixed = [
        {"name": topic, "fixed_delivery_delay": f"{DELAY_MS}ms"}
        for (way, _), topic in topics.items()
        if way == "gate"
    ]
    for topic in topics.values():
        own_pulsar.admin.create_topic(topic)
    with Gate(
        tmp_path / "gate", own_pulsar.address, {"topics": fixed}, admin_url=own_pulsar.admin_url
    ) as gate:
        runs = []
        for family in families:
            runs.append(Run(family, own_pulsar.service_url, topics["direct", family.name], DELAY_MS))
            runs.append(Run(family, gate.service_url, topics["gate", family.name], None))
        for run in runs:
            run.attach(own_pulsar.admin)
        for run in runs:
            run.begin()
        for run in runs:
            run.delivered()
        killed_ms = now_ms()
        own_pulsar.kill()
        own_pulsar.start()
        back_ms = now_ms()
        for run in runs:
            run.end(own_pulsar.admin, back_ms)
        for run in runs:
            run.check(read_topic(own_pulsar.service_url, run.topic), killed_ms)


@pytest.mark.seed("S2-019", "S2-027")
def test_the_gateway_is_killed_while_clients_work(
    pulsar: PulsarBroker, new_gate: NewGate, new_topic: NewTopic, python: PythonFamily, java: JavaFamily
) -> None:
    families: list[Family] = [java, python]  # the slower one to begin is first
    topics = [new_topic() for _ in families]
    gate = new_gate({"topics": [{"name": one, "fixed_delivery_delay": f"{DELAY_MS}ms"} for one in topics]})
    runs = [
        Run(family, gate.service_url, topic, None) for family, topic in zip(families, topics, strict=True)
    ]
    for run in runs:
        run.attach(pulsar.admin)
    for run in runs:
        run.begin()
    for run in runs:
        run.delivered()
    killed_ms = now_ms()
    gate.kill9()
    gate.start()
    back_ms = now_ms()
    for run in runs:
        run.end(pulsar.admin, back_ms)
    for run in runs:
        run.check(read_topic(pulsar.service_url, run.topic), killed_ms)
