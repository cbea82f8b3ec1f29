"""Real Pulsar for the tests below this folder; without Java or Pulsar's jars they skip and say why."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.pulsar.real.support import tokens
from tests.pulsar.real.support.admin import DEFAULT_NAMESPACE, Admin
from tests.pulsar.real.support.broker import TRANSACTIONS, PulsarBroker, Tls, why_unavailable
from tests.pulsar.real.support.cluster import PulsarCluster
from tests.pulsar.real.support.family import ANSWER_S, Family, Form, Keys, RefusedError, numbered
from tests.pulsar.real.support.gate import Gate, Policies
from tests.pulsar.real.support.java import JavaFamily
from tests.pulsar.real.support.python import PythonFamily
from tests.real.certificates import Authority
from tests.real.java import why_no_compiler
from tests.real.needs import mark, need
from tests.waiting import until

NewTopic = Callable[..., str]
"""`new_topic(prefix="topic", partitions=0, namespace="public/default") -> full name`."""
NewNamespace = Callable[[], str]
"""`new_namespace() -> tenant/name`: one for a test that sets policies for a namespace."""
NewGate = Callable[..., Gate]
"""`new_gate(policies=None, **broker) -> gate`, with further keys of the broker's entry."""

_HERE = Path(__file__).parent
_brokers: list[PulsarBroker] = []
_numbers = count(1)


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
                report.sections.append((f"pulsar in {broker.directory}", broker.log_tail()))
    return report


@pytest.fixture(scope="package")
def pulsar_libs() -> None:
    """Skip where no broker can be run; with SLUICEGATE_REQUIRE_BROKER=1 that is a failure."""
    need(why_unavailable())


@pytest.fixture(scope="package")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """What the session's broker shows on its TLS ports."""
    authority = Authority(tmp_path_factory.mktemp("authority"))
    return Tls(authority, authority.issue("pulsar"))


@pytest.fixture(scope="package")
def pulsar(pulsar_libs: None, tls: Tls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarBroker]:
    """One node for all tests of this folder, with plain and TLS ports. Do not stop it: see `own_pulsar`."""
    node = PulsarBroker(tmp_path_factory.mktemp("pulsar") / "node", tls=tls)
    with closing(node.admin), _shown(node) as broker:
        yield broker


@pytest.fixture
def own_pulsar(pulsar_libs: None, tmp_path: Path) -> Iterator[PulsarBroker]:
    """One node for one test, which may stop, kill and restart it."""
    node = PulsarBroker(tmp_path / "node")
    with closing(node.admin), _shown(node) as broker:
        yield broker


@pytest.fixture
def deduplicating_pulsar(pulsar_libs: None, tmp_path: Path) -> Iterator[PulsarBroker]:
    """As `own_pulsar`, and messages that clients send once more, as no answer came, are stored once."""
    with _shown(PulsarBroker(tmp_path / "node", brokerDeduplicationEnabled="true")) as broker:
        yield broker


@pytest.fixture(scope="module")
def guarded_pulsar(pulsar_libs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarBroker]:
    """One node that asks for tokens and lets roles do only what they were granted."""
    directory, headers = tmp_path_factory.mktemp("guarded") / "node", tokens.bearer(tokens.SUPERUSER)
    with _shown(PulsarBroker(directory, tls=None, admin_headers=headers, **tokens.settings())) as broker:
        yield broker


@pytest.fixture(scope="module")
def transactional_pulsar(
    pulsar_libs: None, java: JavaFamily, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PulsarBroker]:
    """One node with transactions, which has committed one: only then are the topics there that they need."""
    node = PulsarBroker(
        tmp_path_factory.mktemp("transactional") / "node", tls=None, admin_headers=None, **TRANSACTIONS
    )
    values = numbered(1)

    def committed() -> bool:
        # The coordinator may be away for a moment while it is made.
        with suppress(RefusedError, TimeoutError):
            topic = "persistent://public/default/first"
            published = java.produce(broker.service_url, topic, values, form=Form.TRANSACTIONAL).close()
            return [one.value for one in published if one.entry] == values
        return False

    with closing(node.admin), _shown(node) as broker:
        until(committed, "a transaction is committed", 2 * ANSWER_S)
        yield broker


@pytest.fixture(scope="module")
def pulsar_cluster(pulsar_libs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarCluster]:
    """Two brokers of one cluster, for as long as a file's tests need them."""
    cluster = PulsarCluster(tmp_path_factory.mktemp("cluster"))
    _brokers.extend(cluster.brokers)
    with cluster:
        yield cluster


@pytest.fixture
def admin(pulsar: PulsarBroker) -> Admin:
    """The session's broker's own admin API."""
    return pulsar.admin


@pytest.fixture
def new_topic(admin: Admin) -> NewTopic:
    """Makes topics with names of their own on the session's broker."""

    def make(prefix: str = "topic", partitions: int = 0, namespace: str = DEFAULT_NAMESPACE) -> str:
        name = f"persistent://{namespace}/{prefix}-{next(_numbers)}"
        admin.create_topic(name, partitions)
        return name

    return make


@pytest.fixture
def new_namespace(admin: Admin) -> NewNamespace:
    """Makes namespaces on the session's broker."""

    def make() -> str:
        name = f"public/namespace-{next(_numbers)}"
        admin.create_namespace(name)
        return name

    return make


@pytest.fixture(scope="package")
def gate(pulsar: PulsarBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """A gateway in front of the session's broker; each test sets policies for its own topics."""
    directory = tmp_path_factory.mktemp("gate") / "run"
    with Gate(directory, pulsar.address, admin_url=pulsar.admin_url) as running:
        yield running


@pytest.fixture
def new_gate(pulsar: PulsarBroker, tmp_path: Path) -> Iterator[NewGate]:
    """Start gates in front of the session's broker that are one test's own."""
    with ExitStack() as gates:

        def start(policies: Policies | None = None, **broker: Any) -> Gate:
            directory = tmp_path / f"gate-{next(_numbers)}"
            own = Gate(directory, pulsar.address, policies or {}, broker, admin_url=pulsar.admin_url)
            return gates.enter_context(own)

        yield start


@pytest.fixture(scope="package")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """What encrypted messages are encrypted with."""
    return Keys.make(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="package")
def java(pulsar_libs: None, keys: Keys, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaFamily]:
    """The Java client; skipped without a compiler, as `pulsar_libs` is without a broker."""
    need(why_no_compiler())
    family = JavaFamily(tmp_path_factory.mktemp("java"), keys)
    yield family
    family.close()


@pytest.fixture(scope="package")
def python(keys: Keys) -> PythonFamily:
    """The Python client."""
    return PythonFamily(keys)


@pytest.fixture(params=["python", "java"])
def family(request: pytest.FixtureRequest) -> Family:
    """Each client library in turn."""
    found: Family = request.getfixturevalue(request.param)
    return found


def _shown(broker: PulsarBroker) -> PulsarBroker:
    _brokers.append(broker)
    return broker
