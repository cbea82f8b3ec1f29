"""Two brokers of one cluster, between which topics move."""

from contextlib import closing
from pathlib import Path

import httpx
import pytest
from tests.pulsar.cluster.scripted_api import api_at
from tests.pulsar.real.support.admin import topic_path
from tests.pulsar.real.support.cluster import PulsarCluster
from tests.pulsar.real.support.family import Family, Subscription, collect, numbered
from tests.pulsar.real.support.gate import Gate
from tests.waiting import LONG_S, until

_POLICY = "delayedDelivery"
_DELAY = {
    "active": True,
    "tickTime": 200,
    "maxDeliveryDelayInMillis": 2000,
    "fixedDeliveryDelayInMillis": 3_600_000,
}


@pytest.mark.longer(but="python")
def test_a_topic_moves_to_the_other_broker(pulsar_cluster: PulsarCluster, family: Family) -> None:
    topic, values = f"persistent://public/{family.name}/moving", numbered(20)
    pulsar_cluster.admin.create_namespace(f"public/{family.name}")
    pulsar_cluster.admin.create_topic(topic)
    first = pulsar_cluster.owner(topic)
    consumer = family.consume(pulsar_cluster.brokers[0].service_url, topic, "one", Subscription.EXCLUSIVE)
    producer = family.produce(pulsar_cluster.brokers[1].service_url, topic, values, interval_ms=100)
    collect(consumer, 1)
    pulsar_cluster.move(topic)
    assert pulsar_cluster.owner(topic) is not first
    published = producer.close()
    assert {one.value for one in published if one.entry} == set(values)
    until(lambda: {one.value for one in consumer.received} == set(values), "all received")
    consumer.close()


@pytest.mark.longer(but="python")
def test_a_topic_moves_behind_a_gateway(
    pulsar_cluster: PulsarCluster, tmp_path: Path, family: Family
) -> None:
    """Clients stay with the gateway, which learns of the other broker from the cluster's own answers."""
    topic, values = f"persistent://public/gate-{family.name}/moving", numbered(20)
    pulsar_cluster.admin.create_namespace(f"public/gate-{family.name}")
    pulsar_cluster.admin.create_topic(topic)
    addresses = [broker.address for broker in pulsar_cluster.brokers]
    known = {"known_brokers": addresses}
    url = pulsar_cluster.brokers[0].admin_url
    with Gate(tmp_path / "gate", addresses[0], broker=known, admin_url=url) as gate:
        consumer = family.consume(gate.service_url, topic, "one", Subscription.EXCLUSIVE)
        producer = family.produce(gate.service_url, topic, values, interval_ms=100)
        collect(consumer, 1)
        pulsar_cluster.move(topic)
        published = producer.close()
        assert {one.value for one in published if one.entry} == set(values)
        until(lambda: {one.value for one in consumer.received} == set(values), "all received")
        consumer.close()
        passed = "sluicegate_messages_total"
        gate.eventually(
            lambda: gate.metric(passed, broker="pulsar", direction="publish") >= len(values),
            "the gate has counted them",
        )


def test_a_topic_of_another_broker(pulsar_cluster: PulsarCluster, tmp_path: Path) -> None:
    first, second = pulsar_cluster.brokers
    topic = "persistent://public/default/moved"
    pulsar_cluster.admin.create_topic(topic)
    if pulsar_cluster.owner(topic) is first:
        pulsar_cluster.move(topic)
    known = {"known_brokers": [f"127.0.0.1:{second.web_port}"]}
    gate = Gate(tmp_path / "gate", first.address, broker=known, admin_url=first.admin_url)
    with gate, closing(gate.web()) as web:
        stats = f"{topic_path(topic)}/stats"
        moved = httpx.get(f"{gate.web_url}/admin/v2{stats}", timeout=LONG_S)
        assert moved.status_code == 307
        assert moved.headers["location"].startswith(f"{gate.web_url}/admin/v2{stats}?")
        followed = httpx.get(moved.headers["location"], timeout=LONG_S)
        assert (followed.status_code, followed.json()["publishers"]) == (200, [])

        web.set_policy(topic, _POLICY, _DELAY)
        longest = "maxDeliveryDelayInMillis"
        until(lambda: (second.admin.policy(topic, _POLICY) or {}).get(longest) == 0, "the broker has it, too")
        web.remove_policy(topic, _POLICY)


async def test_the_gateways_requests_reach_a_topic_of_another_broker(pulsar_cluster: PulsarCluster) -> None:
    """Brokers redirect to each other by the names that they advertise, which the file need not have."""
    topic = "persistent://public/default/asked"
    pulsar_cluster.admin.create_topic(topic)
    pulsar_cluster.admin.create_subscription(topic, "one")
    for broker in pulsar_cluster.brokers:
        api, brokers = api_at(f"http://localhost:{broker.web_port}")
        assert await api.subscriptions(topic) == {"one"}
        assert (broker is pulsar_cluster.owner(topic)) == (brokers.target("127.0.0.1:6650") is None)
