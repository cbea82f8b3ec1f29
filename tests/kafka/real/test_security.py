"""TLS on either side, SASL through the gateway, and the principals that result."""

import os
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from kio.schema.errors import ErrorCode
from tests.kafka.real.support.broker import KafkaBroker, Security
from tests.kafka.real.support.clients import (
    create_topic,
    make_group,
    read_topic,
    send_with_aiokafka,
    send_with_confluent,
)
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.history import judge
from tests.kafka.real.support.raw import RawClient, call
from tests.kafka.real.support.steady import SteadyProducer
from tests.kafka.session.messages import batch, outcome, produce
from tests.waiting import LONG_S, until

from sluicegate.net.tls import OwnTlsFiles
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.plugin import KafkaDriver

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_KINDS = [*_MECHANISMS[:2], pytest.param(_MECHANISMS[2], marks=pytest.mark.longer)]
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@pytest.fixture(scope="module")
def locked(
    kafka_libs: None, security: Security, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaBroker]:
    """A node that asks for certificates on its TLS listener and knows its users by SCRAM, too.

    Carol may do nothing, dave only what a test allows; the others, all.
    """
    lines = {
        "listener.name.tls.ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": "User:ANONYMOUS;User:alice;User:bob;User:CN=gate-as-client",
    }
    for listener in ("sasl", "sasltls"):
        prefix = f"listener.name.{listener}"
        lines[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(_MECHANISMS)
        for mechanism in _MECHANISMS[1:]:
            lines[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = _SCRAM
    with KafkaBroker(tmp_path_factory.mktemp("locked") / "node", security=security, properties=lines) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            wanted: list[Any] = [
                UserScramCredentialUpsertion(user, ScramCredentialInfo(kind, 4096), password.encode())
                for user, password in security.users.items()
            ]
            for done in admin.alter_user_scram_credentials(wanted).values():
                done.result(LONG_S)
        yield node


def client_side(security: Security, *, ask_certificate: bool = False) -> dict[str, str]:
    """The gateway's TLS towards clients."""
    identity = security.authority.issue("gate")
    side = {"cert": os.fspath(identity.certificate), "key": os.fspath(identity.key)}
    return side | ({"client_ca": os.fspath(security.authority.certificate)} if ask_certificate else {})


def broker_side(security: Security, *, certificate: bool = False) -> dict[str, str]:
    """The gateway's TLS towards the broker."""
    side = {"ca": os.fspath(security.authority.certificate)}
    if certificate:
        identity = security.authority.issue("gate-as-client")
        side |= {"cert": os.fspath(identity.certificate), "key": os.fspath(identity.key)}
    return side


def goes_through(gate: Gate, node: KafkaBroker, topic: str, settings: dict[str, Any]) -> None:
    """Produce and consume through the gateway, and compare."""
    create_topic(node.bootstrap, topic)
    log = send_with_confluent(gate.bootstrap, topic, 50, settings=settings)
    assert len(log.acked) == 50
    judge(log, read_topic(node.bootstrap, topic)).assert_clean()
    underscored = {key.replace(".", "_"): value for key, value in settings.items()}
    judge(log, read_topic(gate.bootstrap, topic, **underscored)).assert_clean()


# -- TLS ----------------------------------------------------------------------------------------------


def test_tls_to_clients(locked: KafkaBroker, security: Security, tmp_path: Any) -> None:
    tls = {"client": client_side(security)}
    with Gate(tmp_path / "gate", locked.bootstrap, broker={"tls": tls}) as gate:
        goes_through(gate, locked, "tls-to-clients", security.client_tls())
        with RawClient(gate.bootstrap) as plain:
            plain.send(b"\0\0\0\x14\0\x12\0\0\0\0\0\1\0\3abc\0\0\0\0\0\0\0")
            plain.rest()
        gate.eventually(
            lambda: gate.metric("sluicegate_client_handshakes_failed_total") == 1, "a plain client is counted"
        )
        assert "client did not connect" in gate.output()
        goes_through(gate, locked, "tls-to-clients-2", security.client_tls())


def test_tls_to_the_broker_with_a_certificate(locked: KafkaBroker, security: Security, tmp_path: Any) -> None:
    upstream = f"127.0.0.1:{locked.ports.tls}"
    tls = {"broker": broker_side(security, certificate=True)}
    with Gate(tmp_path / "gate", upstream, broker={"tls": tls}) as gate:
        goes_through(gate, locked, "tls-to-broker", {})


def test_a_broker_whose_certificate_is_not_trusted(
    locked: KafkaBroker, security: Security, tmp_path: Any
) -> None:
    """Neither a strange authority nor another name will do; the client is closed, and the log says why."""
    side = {**broker_side(security, certificate=True), "server_name": "elsewhere.example"}
    with Gate(tmp_path / "gate", f"127.0.0.1:{locked.ports.tls}", broker={"tls": {"broker": side}}) as gate:
        with RawClient(gate.bootstrap) as raw:
            raw.send(bytes(4))  # its first bytes have the broker dialled
            assert raw.rest() == b""
        gate.eventually(lambda: gate.metric("sluicegate_upstream_dials_failed_total") > 0, "it is counted")
        gate.eventually(lambda: "CERTIFICATE_VERIFY_FAILED" in gate.output(), "it is told")


def test_mutual_tls_on_both_sides_with_sasl_inside(
    locked: KafkaBroker, security: Security, tmp_path: Any
) -> None:
    tls = {"client": client_side(security, ask_certificate=True), "broker": broker_side(security)}
    upstream = f"127.0.0.1:{locked.ports.sasl_tls}"
    with Gate(tmp_path / "gate", upstream, broker={"tls": tls}) as gate:
        login = security.client_sasl("alice", tls=True)
        identity = security.authority.issue("client")
        shown = {
            "ssl.certificate.location": os.fspath(identity.certificate),
            "ssl.key.location": os.fspath(identity.key),
        }
        goes_through(gate, locked, "mutual", login | shown)
        context = ssl.create_default_context(cafile=os.fspath(security.authority.certificate))
        with pytest.raises((ssl.SSLError, ConnectionError)), RawClient(gate.bootstrap, tls=context) as bare:
            bare.ask(call("api_versions", 3, client_software_name="raw", client_software_version="1"))
        gate.eventually(
            lambda: gate.metric("sluicegate_client_handshakes_failed_total") == 1,
            "a client without a certificate is counted",
        )


# -- SASL ---------------------------------------------------------------------------------------------

_POLICIES = {
    "max_producers_per_topic": 1,
    "max_publish_rate": 20,
    "max_message_size": "1000B",
    "on_limit": {"max_publish_rate": "reject"},
}


@pytest.fixture(scope="module")
def gate(locked: KafkaBroker, security: Security, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """In front of the SASL listener; alice is exempt, and the gateway itself logs in as bob."""
    identity = {"mechanism": "SCRAM-SHA-512", "username": "bob", "password": security.users["bob"]}
    broker = {"exempt": {"principals": ["User:alice"]}, "identity": identity}
    upstream = f"127.0.0.1:{locked.ports.sasl}"
    with Gate(tmp_path_factory.mktemp("gate"), upstream, _POLICIES, broker) as gate:
        yield gate


def login(security: Security, user: str, mechanism: str = "PLAIN") -> dict[str, Any]:
    """librdkafka's settings."""
    return {**security.client_sasl(user), "sasl.mechanisms": mechanism, "client.id": f"app-of-{user}"}


@pytest.mark.parametrize("mechanism", _KINDS)
def test_principals_are_those_that_the_broker_accepted(
    gate: Gate, locked: KafkaBroker, security: Security, mechanism: str
) -> None:
    topic = f"principal-{mechanism.lower()}"
    create_topic(locked.bootstrap, topic)
    settings = {key.replace(".", "_"): value for key, value in login(security, "alice", mechanism).items()}
    with SteadyProducer(gate.bootstrap, topic, "alice", interval_s=0.1, **settings):
        mine = login(security, "bob", mechanism)
        assert len(send_with_confluent(gate.bootstrap, topic, 1, lane="bob", settings=mine).acked) == 1
        large = send_with_confluent(gate.bootstrap, topic, 1, lane="b2", pad_bytes=2000, settings=mine)
        assert len(large.errored) == 1
    rows = gate.decided(policy="max_message_size", topic=topic)
    assert [row["principal"] for row in rows] == ["User:bob"]


@pytest.mark.parametrize("mechanism", _KINDS)
def test_a_wrong_password_never_gives_the_name(
    gate: Gate, locked: KafkaBroker, security: Security, mechanism: str
) -> None:
    topic = f"wrong-{mechanism.lower()}"
    create_topic(locked.bootstrap, topic)
    wrong = {**login(security, "alice", mechanism), "sasl.password": "wrong"}
    errors: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": gate.bootstrap,
            "log_level": 0,
            "error_cb": lambda error: errors.append(error.str()),
            **wrong,
        }
    )
    producer.produce(topic, b"x")

    def told() -> bool:
        producer.poll(0.1)
        return any("uthentication failed" in text for text in errors)

    until(told, "the client is told", tell=lambda: f"it was told {errors}")
    producer.purge()
    assert read_topic(locked.bootstrap, topic) == []
    assert gate.decisions(topic=topic) == []


def test_a_name_that_the_broker_did_not_verify_is_ignored(
    locked: KafkaBroker, security: Security, tmp_path: Any
) -> None:
    """In front of a listener without SASL, a client that claims to be exempt stays anonymous."""
    create_topic(locked.bootstrap, "claimed")
    broker = {"exempt": {"principals": ["User:alice"]}}
    with Gate(tmp_path / "gate", locked.bootstrap, _POLICIES, broker) as gate:
        gate.eventually(lambda: "listener='node-1'" in gate.output(), "the node is listened for")
        with RawClient(f"127.0.0.1:{gate.port + 2}", client_id="User:alice") as raw:
            assert raw.ask(call("sasl_handshake", 1, mechanism="PLAIN")).error_code is not ErrorCode.none
            token = b"\0alice\0" + security.users["alice"].encode()
            assert raw.ask(call("sasl_authenticate", 2, auth_bytes=token)).error_code is not ErrorCode.none
            # At 20 a second it is ten minutes until the next one could pass.
            raw.send(produce({"claimed": batch(*[b"x"] * 12_000)}, acks=1))
            assert outcome(raw.frame())["claimed", 0][0] == ErrorCode.none, "a full bucket takes it, in debt"
            raw.send(produce({"claimed": batch(b"x")}, acks=1))
            assert outcome(raw.frame())["claimed", 0][0] == ErrorCode.policy_violation
        assert {row["principal"] for row in gate.decided(policy="max_publish_rate")} == {"ANONYMOUS"}


def test_exempt_principals_skip_counts_and_rates_but_not_size(
    gate: Gate, locked: KafkaBroker, security: Security
) -> None:
    create_topic(locked.bootstrap, "exempt")
    bob, alice = login(security, "bob"), login(security, "alice")
    underscored = {key.replace(".", "_"): value for key, value in bob.items()}
    with SteadyProducer(gate.bootstrap, "exempt", "bob", interval_s=0.2, **underscored):
        second = send_with_confluent(
            gate.bootstrap, "exempt", 1, lane="b2", settings={**bob, "client.id": "b2"}
        )
        assert len(second.errored) == 1, "the one place is taken"
        free = send_with_confluent(gate.bootstrap, "exempt", 500, lane="alice", settings=alice)
        assert len(free.acked) == 500, "alice takes no place and is not held to 20 a second"
        large = send_with_confluent(gate.bootstrap, "exempt", 1, lane="a2", pad_bytes=2000, settings=alice)
        assert len(large.errored) == 1
    gate.eventually(lambda: gate.metric("producer_count", topic_name="exempt") == 0, "alice does not count")
    assert {
        row["policy"] for row in gate.decided(topic="exempt", principal="User:alice", action="reject")
    } == {"max_message_size"}


async def test_aiokafka_logs_in(gate: Gate, locked: KafkaBroker, security: Security) -> None:
    create_topic(locked.bootstrap, "aiokafka-login")
    log = await send_with_aiokafka(
        gate.bootstrap,
        "aiokafka-login",
        5,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_plain_username="bob",
        sasl_plain_password=security.users["bob"],
    )
    assert len(log.acked) == 5


@pytest.mark.seed("S1-034")
def test_the_gateway_lists_groups_under_its_own_identity(
    gate: Gate, locked: KafkaBroker, security: Security, tmp_path: Any
) -> None:
    """With a login the gateway knows which groups exist; without one it does not, and takes none for now."""
    create_topic(locked.bootstrap, "listed")
    make_group(locked.bootstrap, "there-before", "listed")
    policies = {"max_subscriptions_per_topic": 1}
    upstream = f"127.0.0.1:{locked.ports.sasl}"
    own = {"identity": {"username": "bob", "password": security.users["bob"]}}
    for name, broker, expected in (
        ("known", own, {"there-before": "in", "new": "refused"}),
        ("unknown", {}, {"new": "waits"}),
    ):
        with Gate(tmp_path / name, upstream, policies, broker) as listing:
            for group, allowed in expected.items():
                settings = {**login(security, "alice"), "group.id": group, "log_level": 0}
                consumer = Consumer({"bootstrap.servers": listing.bootstrap, **settings})
                assert attempt(listing, consumer, group, "listed") == allowed, f"{name}: group {group!r}"
            reason = {row["reason"] for row in listing.decided(policy="max_subscriptions_per_topic")}
            assert reason == ({"limit_reached"} if broker else {"precondition"})
            assert ("cannot list consumer groups" in listing.output()) is not bool(broker)


@pytest.mark.seed("X-02", "S1-034")
def test_a_login_without_rights_to_all_groups_knows_none(
    locked: KafkaBroker, security: Security, tmp_path: Any
) -> None:
    """Kafka would answer with the groups that it may see, as if there were no others."""
    create_topic(locked.bootstrap, "hidden")
    make_group(locked.bootstrap, "hidden-before", "hidden")
    broker = {"identity": {"username": "dave", "password": security.users["dave"]}}
    upstream = f"127.0.0.1:{locked.ports.sasl}"

    def joining(gate: Gate, group: str) -> str:
        settings = {**login(security, "alice"), "group.id": group, "log_level": 0}
        consumer = Consumer({"bootstrap.servers": gate.bootstrap, **settings})
        return attempt(gate, consumer, group, "hidden")

    with Gate(tmp_path / "gate", upstream, {"max_subscriptions_per_topic": 1}, broker) as gate:
        assert joining(gate, "hidden-new") == "waits"
        assert {row["reason"] for row in gate.decided(topic="hidden")} == {"precondition"}
        assert "needs Describe on the cluster, groups and topics" in gate.output()
        allow_describe(locked, "dave")
        gate.eventually(lambda: joining(gate, "hidden-before") == "in", "the groups are known")
        assert joining(gate, "hidden-new") == "refused"


async def test_limits_that_a_login_may_not_see_are_gaps(locked: KafkaBroker, security: Security) -> None:
    identity = {"username": "carol", "password": security.users["carol"]}
    config = KafkaConfig.model_validate(
        {
            "name": "k",
            "system": "kafka",
            "bootstrap": [f"127.0.0.1:{locked.ports.sasl}"],
            "listen": {"port": 45_900},
            "identity": identity,
        }
    )
    found = await KafkaDriver().own_settings(config, OwnTlsFiles(config))
    assert found.settings == ()
    assert [gap.partition(": ")[0] for gap in found.gaps] == ["broker configs", "client quotas"]
    assert all("DescribeConfigs on the cluster" in gap for gap in found.gaps)


def allow_describe(node: KafkaBroker, user: str) -> None:
    """Let a user see everything."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    everything = [
        AclBinding(kind, name, pattern, f"User:{user}", "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW)
        for kind, name, pattern in (
            (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL),
            (ResourceType.GROUP, "*", ResourcePatternType.LITERAL),
            (ResourceType.TOPIC, "*", ResourcePatternType.LITERAL),
        )
    ]
    for done in admin.create_acls(everything).values():
        done.result(LONG_S)


def attempt(gate: Gate, consumer: Consumer, group: str, topic: str) -> str:
    """Try to join: `in`, `refused`, or `waits` if the gateway has the client try again."""

    def put_off() -> int:
        return len(gate.decisions(topic=topic, subscription=group, reason="precondition"))

    before, told = put_off(), ""

    def outcome() -> str:
        message = consumer.poll(0.1)
        if message is not None and message.error() is not None:
            return "refused"
        if consumer.assignment():
            return "in"
        return "waits" if put_off() > before else ""

    def known() -> bool:
        nonlocal told
        told = outcome()
        return told != ""

    try:
        consumer.subscribe([topic])
        until(known, f"group {group!r} is in, refused or put off")
    except KafkaException:
        return "refused"
    finally:
        consumer.close()
    return told


# -- the gateway's own login -----------------------------------------------------------------------------

STORAGE = {"source": "log_dirs", "interval": "200ms"}
LIMITS = {"storage_hard_min_free_bytes": 1}


@pytest.mark.seed("S4-032")
def test_the_gateway_reads_volumes_by_certificate_at_a_listener_of_its_own(
    locked: KafkaBroker, security: Security, tmp_path: Any
) -> None:
    tls = broker_side(security, certificate=True)
    own = {"bootstrap": [f"127.0.0.1:{locked.ports.tls}"], "tls": tls}
    with Gate(tmp_path / "gate", locked.bootstrap, LIMITS, {"storage": STORAGE, "identity": own}) as gate:
        gate.eventually(lambda: factor_of(gate) == (1, 1), "the volumes are known")


@pytest.mark.seed("S4-015", "S4-032")
def test_without_rights_the_volumes_are_unknown_and_the_log_says_what_is_needed(
    locked: KafkaBroker, security: Security, tmp_path: Any
) -> None:
    carol = {"username": "carol", "password": security.users["carol"]}
    own = {"bootstrap": [f"127.0.0.1:{locked.ports.sasl}"], **carol}
    with Gate(tmp_path / "gate", locked.bootstrap, LIMITS, {"storage": STORAGE, "identity": own}) as gate:
        gate.eventually(lambda: factor_of(gate) == (0, 0), "paused, as nothing is known")
        gate.eventually(lambda: "needs the operation Describe on the cluster" in gate.output(), "it says why")


def factor_of(gate: Gate) -> tuple[float, float]:
    """The factor of storage quotas, and whether it is known."""
    return (
        gate.metric("sluicegate_quota_factor", factor="storage_quota"),
        gate.metric("sluicegate_quota_factor_known", factor="storage_quota"),
    )
