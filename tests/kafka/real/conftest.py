"""Real Kafka for the tests below this folder; without Java or Kafka's jars they skip and say why."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kafka.real.support.broker import KafkaBroker, KafkaCluster, Security
from tests.kafka.real.support.clients import create_topic
from tests.kafka.real.support.families import (
    AiokafkaFamily,
    Family,
    JavaFamily,
    Member,
    RdkafkaFamily,
)
from tests.kafka.real.support.gate import Gate, Policies
from tests.kafka.real.support.java import why_unavailable
from tests.kafka.real.support.transports import Transports
from tests.real.certificates import Authority
from tests.real.java import why_no_compiler
from tests.real.needs import mark, need

NewGate = Callable[..., Gate]
"""`new_gate(policies=None, **broker) -> gate`, with further keys of the broker's entry."""
Join = Callable[..., Member]
"""`join(family, bootstrap, topic_or_topics, group, **settings) -> member`, with `_` for `.` in names."""

_HERE = Path(__file__).parent
_USERS = ("alice", "bob", "carol", "dave")
_brokers: list[KafkaBroker] = []
_transports: list[Transports] = []
_topic_numbers = count(1)
_gate_numbers = count(1)

NewFile = Callable[..., str]
"""`new_file(topic, **policies) -> path` of a policy file for that topic."""

NewTopic = Callable[..., str]
"""`new_topic(prefix="t", partitions=1, **settings) -> name`: a topic on the session's broker."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what stands in this folder."""
    mark(items, _HERE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Show what the brokers printed when a test has failed."""
    report = yield
    if report.failed and _HERE in item.path.parents:
        for broker in _brokers:
            if broker.running:
                report.sections.append((f"kafka node {broker.node_id}", broker.log_tail()))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Let nothing that a test's client libraries leave open reach a later test."""
    yield
    for transports in _transports:
        transports.close_behind_loops()


@pytest.fixture(scope="package", autouse=True)
def transports() -> Iterator[None]:
    """Note what event loops connect."""
    with pytest.MonkeyPatch.context() as patch:
        _transports.append(Transports(patch))
        yield
    _transports.clear()


@pytest.fixture(scope="package")
def kafka_libs() -> None:
    """Skip where no broker can be run; with SLUICEGATE_REQUIRE_BROKER=1 that is a failure."""
    need(why_unavailable())


@pytest.fixture(scope="package")
def security(tmp_path_factory: pytest.TempPathFactory) -> Security:
    """A certificate authority, the brokers' certificate and the users."""
    authority = Authority(tmp_path_factory.mktemp("authority"))
    return Security(authority, authority.issue("kafka"), {name: f"{name}-secret" for name in _USERS})


@pytest.fixture(scope="package")
def kafka(
    kafka_libs: None, security: Security, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaBroker]:
    """One node for all tests of this folder, with all kinds of listeners. Do not stop it: see `own_kafka`."""
    with _shown(KafkaBroker(tmp_path_factory.mktemp("kafka") / "node", security=security)) as broker:
        yield broker


@pytest.fixture
def own_kafka(kafka_libs: None, tmp_path: Path) -> Iterator[KafkaBroker]:
    """One node for one test, which may stop, kill and restart it.

    It may come back soon after it was killed: its old registration ends early.
    """
    lines = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
    with _shown(KafkaBroker(tmp_path / "node", properties=lines)) as broker:
        yield broker


@pytest.fixture(scope="module")
def kafka_cluster(kafka_libs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three nodes, for as long as a file's tests need them: they take a whole core even when they idle."""
    cluster = KafkaCluster(tmp_path_factory.mktemp("cluster"))
    _brokers.extend(cluster.nodes)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def new_topic(kafka: KafkaBroker) -> NewTopic:
    """Makes topics with names of their own on the session's broker."""

    def make(prefix: str = "topic", partitions: int = 1, **settings: str) -> str:
        name = f"{prefix}-{next(_topic_numbers)}"
        create_topic(kafka.bootstrap, name, partitions, 1, **settings)
        return name

    return make


@pytest.fixture(scope="package")
def gate(kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """A gateway in front of the session's broker; each test sets policies for its own topics."""
    with Gate(tmp_path_factory.mktemp("gate") / "run", kafka.bootstrap) as running:
        yield running


@pytest.fixture(scope="package")
def java_family(kafka_libs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaFamily]:
    """Java clients that a test steers; skipped without a compiler, as `kafka_libs` is without a broker."""
    need(why_no_compiler())
    java = JavaFamily(tmp_path_factory.mktemp("java"))
    yield java
    java.close()


@pytest.fixture(scope="package")
def aiokafka_family() -> Iterator[AiokafkaFamily]:
    """aiokafka on an event loop of its own."""
    aiokafka = AiokafkaFamily()
    yield aiokafka
    aiokafka.close()


@pytest.fixture(params=["aiokafka", "librdkafka", "java"])
def family(request: pytest.FixtureRequest) -> Family:
    """Each kind of stock client in turn."""
    if request.param == "librdkafka":
        return RdkafkaFamily()
    found: Family = request.getfixturevalue(f"{request.param}_family")
    return found


@pytest.fixture
def new_gate(kafka: KafkaBroker, tmp_path: Path) -> Iterator[NewGate]:
    """Start gates in front of the session's broker that are one test's own."""
    with ExitStack() as gates:

        def start(policies: Policies | None = None, **broker: Any) -> Gate:
            own = Gate(tmp_path / f"gate-{next(_gate_numbers)}", kafka.bootstrap, policies or {}, broker)
            return gates.enter_context(own)

        yield start


@pytest.fixture
def new_file(kafka: KafkaBroker, tmp_path: Path) -> NewFile:
    """Write policy files for clients that apply them themselves."""

    def write(topic: str, **policies: Any) -> str:
        path = tmp_path / f"{topic}.yaml"
        entry = {"name": "kafka", "system": "kafka", "bootstrap": [kafka.bootstrap]}
        path.write_text(
            yaml.safe_dump(
                {
                    "state_dir": str(tmp_path / f"{topic}.state"),
                    "brokers": [entry],
                    "policies": {"topics": [{"name": topic, **policies}]},
                }
            )
        )
        return str(path)

    return write


@pytest.fixture
def join(new_gate: NewGate) -> Iterator[Join]:
    """Make members of groups; they leave before the test's own gates end."""
    members: list[Member] = []

    def make(
        family: Family, bootstrap: str, topics: str | list[str], group: str, **settings: str | int
    ) -> Member:
        topics = [topics] if isinstance(topics, str) else topics
        named = {name.replace("_", "."): value for name, value in settings.items()}
        members.append(family.member(bootstrap, topics, group, named))
        return members[-1]

    yield make
    for member in members:
        member.close()


def _shown(broker: KafkaBroker) -> KafkaBroker:
    _brokers.append(broker)
    return broker
