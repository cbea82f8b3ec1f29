"""The web listener in front of a real Pulsar's admin API."""

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.pulsar.real.conftest import NewNamespace, NewTopic
from tests.pulsar.real.support.admin import Admin, AdminError, policy_path, topic_path
from tests.pulsar.real.support.broker import PulsarBroker, archived_pulsar
from tests.pulsar.real.support.family import ANSWER_S, Family, collect, numbered
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.python import PythonFamily
from tests.real.java import compile_java, frugal_jvm, why_no_compiler
from tests.real.needs import need
from tests.waiting import until

from sluicegate_reports.runner.brokers import jars
from sluicegate_reports.runner.brokers.pulsar import LOGGING, OPENED

POLICY = "delayedDelivery"
NATIVE = {"active": True, "tickTime": 200, "maxDeliveryDelayInMillis": 2000}
FIXED = {"fixedDeliveryDelayInMillis": 3_600_000}


@pytest.fixture
def web(gate: Gate) -> Iterator[Admin]:
    """The admin API through the gateway."""
    with closing(gate.web()) as found:
        yield found


@pytest.mark.seed("S2-001", "S2-003", "S2-011", "S2-013")
def test_a_topics_fixed_delay(admin: Admin, web: Admin, new_topic: NewTopic) -> None:
    topic = new_topic()
    web.set_policy(topic, POLICY, NATIVE | FIXED)

    assert web.policy(topic, POLICY) == NATIVE | FIXED
    assert web.policy(topic, POLICY, applied=True) == NATIVE | FIXED
    without = NATIVE | {"maxDeliveryDelayInMillis": 0}
    until(lambda: admin.policy(topic, POLICY) == without, "the broker has no longest delay")

    web.set_policy(topic, POLICY, NATIVE | {"fixedDeliveryDelayInMillis": 0})
    until(lambda: admin.policy(topic, POLICY) == NATIVE, "the broker has the longest delay again")

    web.remove_policy(topic, POLICY)
    until(lambda: admin.policy(topic, POLICY) is None, "the broker has no policy left")


@pytest.mark.seed("S2-007", "S2-011")
def test_a_field_that_is_left_out_is_zero_at_the_broker_and_here(
    admin: Admin, web: Admin, new_topic: NewTopic
) -> None:
    own, left_out = new_topic(), {"active": True, "tickTime": 200}
    admin.set_policy(own, POLICY, NATIVE)
    admin.post(policy_path(own, POLICY), left_out)
    zero = left_out | {"maxDeliveryDelayInMillis": 0}
    until(lambda: admin.policy(own, POLICY) == zero, "the broker has replaced the whole policy")

    topic = new_topic()
    web.set_policy(topic, POLICY, NATIVE | FIXED)
    web.post(policy_path(topic, POLICY), left_out)
    assert web.policy(topic, POLICY)["fixedDeliveryDelayInMillis"] == 0


@pytest.mark.seed("S2-003", "S2-006", "S2-011")
def test_a_fixed_delay_is_in_force_once_the_request_returns(
    gate: Gate, web: Admin, new_topic: NewTopic, family: Family
) -> None:
    topic, values = new_topic(), numbered(5)
    consumer = family.consume(gate.service_url, topic, "late")
    web.post(policy_path(topic, POLICY), {"fixedDeliveryDelayInMillis": 1500})
    family.produce(gate.service_url, topic, values, deliver_after_ms=60_000).close()
    received = collect(consumer, len(values))
    consumer.close()
    assert sorted(one.value for one in received) == values
    assert min(one.at_ms - one.published_ms for one in received) >= 1500


@pytest.mark.seed("S2-002", "S2-012")
def test_a_namespaces_fixed_delay_and_a_topics_own_maximum(
    admin: Admin, web: Admin, new_namespace: NewNamespace, new_topic: NewTopic
) -> None:
    namespace = new_namespace()
    topic = new_topic(namespace=namespace, partitions=2)
    web.post(policy_path(topic, POLICY), NATIVE | {"fixedDeliveryDelayInMillis": None})
    until(lambda: admin.policy(topic, POLICY) == NATIVE, "the broker has the topic's policy")

    web.set_policy(namespace, POLICY, FIXED)
    assert web.policy(topic, POLICY, applied=True) == NATIVE | FIXED
    without = NATIVE | {"maxDeliveryDelayInMillis": 0}
    until(lambda: admin.policy(topic, POLICY) == without, "the broker has no longest delay")

    web.remove_policy(namespace, POLICY)
    until(lambda: admin.policy(topic, POLICY) == NATIVE, "the broker has the longest delay again")


@pytest.mark.parametrize("is_topic", [True, False])
def test_a_fixed_delay_is_gone_with_what_it_was_set_for(
    admin: Admin, web: Admin, new_namespace: NewNamespace, new_topic: NewTopic, is_topic: bool
) -> None:
    namespace = new_namespace()
    topic = new_topic(namespace=namespace)
    target, path = (topic, topic_path(topic)) if is_topic else (namespace, f"/namespaces/{namespace}")
    web.set_policy(target, POLICY, NATIVE | FIXED)
    if not is_topic:
        web.delete(topic_path(topic), force="true")
    web.delete(path)

    (admin.create_topic if is_topic else admin.create_namespace)(target)
    until(lambda: web.policy(target, POLICY) is None, "the broker has forgotten them, too")
    assert "fixedDeliveryDelayInMillis" not in (web.policy(target, POLICY, applied=True) or {})


def test_a_namespace_delay_above_a_maximum_set_at_the_broker_is_refused(
    admin: Admin, web: Admin, new_namespace: NewNamespace, new_topic: NewTopic
) -> None:
    namespace = new_namespace()
    topic = new_topic(namespace=namespace)
    admin.set_policy(topic, POLICY, NATIVE)

    with pytest.raises(AdminError, match="it would refuse all") as refused:
        web.set_policy(namespace, POLICY, FIXED)
    assert refused.value.status == 409
    assert topic in str(refused.value)
    assert admin.policy(namespace, POLICY) is None
    assert web.policy(topic, POLICY, applied=True) == NATIVE


def test_a_delay_set_over_http_overrides_a_broker_wide_maximum(
    pulsar_libs: None, tmp_path: Path, python: PythonFamily
) -> None:
    topic = "persistent://public/default/strict"
    with (
        PulsarBroker(tmp_path / "node", delayedDeliveryMaxDelayInMillis="1000") as broker,
        closing(broker.admin),
        Gate(tmp_path / "gate", broker.address, admin_url=broker.admin_url) as gate,
        closing(gate.web()) as web,
    ):
        broker.admin.create_topic(topic)
        assert web.policy(topic, POLICY, applied=True)["maxDeliveryDelayInMillis"] == 1000
        web.set_policy(topic, POLICY, FIXED)
        found = broker.admin.policy(topic, POLICY, applied=True)
        assert (found["active"], found["maxDeliveryDelayInMillis"]) == (True, 0)
        [sent] = python.produce(broker.service_url, topic, ["x"], deliver_after_ms=60_000).close()
        assert sent.entry is not None


def test_other_requests_are_answered_as_by_the_broker(admin: Admin, web: Admin, new_topic: NewTopic) -> None:
    topic = new_topic()
    name = topic.rpartition("/")[2]
    paths = [
        "/clusters",
        "/namespaces/public",
        "/namespaces/public/default/delayedDelivery",
        f"/persistent/public/default/{name}/subscriptions",
        f"/persistent/public/default/{name}/internalStats",
        "/persistent/public/default/no-such-topic/stats",
        "/persistent/public/default/%2F/delayedDelivery/x",
        "/no/such/path",
        "/brokers/health",
    ]
    for path in paths:
        direct, through = admin.ask("GET", path), web.ask("GET", path)
        assert (through.status_code, through.text) == (direct.status_code, direct.text), path
        kept = {"content-type", "content-length", "content-encoding"}
        assert {each: through.headers.get(each) for each in kept} == {
            each: direct.headers.get(each) for each in kept
        }
    bodies: list[object] = [[], {"active": "perhaps"}]
    for body in bodies:
        assert web.ask("POST", f"/persistent/public/default/{name}/{POLICY}", body).status_code == 400


def test_clients_with_http_lookup_connect_through_the_gateway(
    gate: Gate, new_topic: NewTopic, family: Family
) -> None:
    topic, values = new_topic(partitions=2), numbered(10)
    accepted = "sluicegate_connections_accepted_total"
    before = gate.metric(accepted)
    sending = family.produce(gate.web_url, topic, values)
    assert sorted(one.value for one in sending.close() if one.entry) == values
    gate.eventually(lambda: gate.metric(accepted) > before, "the producer came through the gate")
    before = gate.metric(accepted)
    consumer = family.consume(gate.web_url, topic, "all")
    assert sorted(one.value for one in collect(consumer, 10)) == values
    gate.eventually(lambda: gate.metric(accepted) > before, "the consumer came through the gate")
    consumer.close()


def test_http_lookups_where_brokers_advertise_another_name(
    pulsar: PulsarBroker, new_topic: NewTopic, tmp_path: Path, family: Family
) -> None:
    """As a Service's name in Kubernetes: the admin API lists the brokers' own names."""
    topic, values = new_topic(), numbered(10)
    service = pulsar.address.replace("127.0.0.1", "localhost")
    with Gate(tmp_path / "gate", service, admin_url=pulsar.admin_url) as gate, closing(gate.web()) as web:
        until(lambda: web.ask_lookup(topic).status_code == 200, "the brokers are listed")
        assert web.lookup(topic)["brokerUrl"] == f"pulsar://127.0.0.1:{gate.port + 2}"
        sending = family.produce(gate.web_url, topic, values)
        assert [one.value for one in sending.close() if one.entry] == values
        accepted = "sluicegate_connections_accepted_total"
        gate.eventually(lambda: gate.metric(accepted) > 0, "the producer came through the gate")


def test_pulsars_own_admin_client(
    gate: Gate, new_namespace: NewNamespace, pulsar_libs: None, tmp_path: Path
) -> None:
    need(why_no_compiler())
    source = Path(__file__).parent / "java" / "WebAdmin.java"
    classpath = compile_java(jars.classpath(jars.PULSAR), tmp_path, source)
    namespace = new_namespace()
    done = subprocess.run(
        [
            *(jars.java(), *frugal_jvm(128), *archived_pulsar()),
            *(f"-Dlog4j2.configurationFile={LOGGING}", "-Dsluicegate.log.level=error"),
            *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
            *("-cp", classpath, "WebAdmin", gate.web_url, namespace),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * ANSWER_S,
    )
    assert done.returncode == 0, done.stderr
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert found == {
        "lookup": gate.service_url,
        "missing": "404",
        "namespace": "9000",
        "partitions": "2",
        "removed": "null",
        "subscriptions": "[mine]",
        "told": "true,150,9000",
        "topics": f"[persistent://{namespace}/by java, with blanks + signs]",
    }
