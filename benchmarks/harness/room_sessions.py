"""Sessions of Kafka's and Pulsar's rooms, timed, with one client behind its first words."""

from collections.abc import Mapping
from typing import Final

from benchmarks.harness import pulsar_bytes
from benchmarks.harness.sessions import NOW_NS, Services, Timed
from sluicegate.model import PolicyValue
from sluicegate_kafka.cluster.nodes import Nodes
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.session.session import KafkaSession
from sluicegate_kafka.session.shared.shared import Shared as KafkaShared
from sluicegate_pulsar.cluster.brokers import Brokers
from sluicegate_pulsar.config import PulsarConfig
from sluicegate_pulsar.session.session import PulsarSession
from sluicegate_pulsar.session.shared.shared import Shared as PulsarShared

PULSAR_TOPIC: Final = "persistent://public/default/t"
"""Of the producer that a Pulsar client has."""


def kafka_session(policies: Mapping[str, PolicyValue]) -> Timed:
    """One of a Kafka client."""
    entry = {"name": "k", "system": "kafka", "bootstrap": ["b:9092"], "listen": {"port": 19_000}}
    config = KafkaConfig.model_validate(entry)
    shared = KafkaShared(config, Services(policies), Nodes(config))
    shared.learned.listing.learned({}, NOW_NS, NOW_NS)
    return Timed(KafkaSession(shared, "10.0.0.1:5000", "node-1", NOW_NS))


def pulsar_session(policies: Mapping[str, PolicyValue]) -> Timed:
    """One of a Pulsar client with producer 0."""
    entry = {"name": "p", "system": "pulsar", "bootstrap": ["b:6650"], "listen": {"port": 19_000}}
    config = PulsarConfig.model_validate(entry)
    brokers = Brokers(config, {})
    brokers.start()
    session = PulsarSession(
        PulsarShared(config, Services(policies), brokers), "10.0.0.1:5000", config.addresses
    )
    timed = Timed(session)
    timed.client(pulsar_bytes.command("connect", client_version="Pulsar-CPP-v4.2.0", protocol_version=20))
    timed.broker(pulsar_bytes.command("connected", server_version="Pulsar", protocol_version=20))
    timed.client(pulsar_bytes.command("producer", topic=PULSAR_TOPIC, producer_id=0, request_id=1))
    timed.broker(pulsar_bytes.command("producer_success", request_id=1, producer_name="p-0"))
    timed.forget()
    return timed
