"""Broker kind `redpanda`: Kafka's protocol, with what stands before the first dash as the namespace."""

from typing import Literal

from sluicegate import hookimpl
from sluicegate.model import Level, TopicName
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.plugin import KafkaDriver


class RedpandaConfig(KafkaConfig):
    """The entry under `brokers:`, chosen by `system: redpanda`."""

    system: Literal["redpanda"]

    def rule_of_names(self, level, name):
        """Namespaces may have dots here; topics are named as Kafka's."""
        return "" if level is Level.NAMESPACE else super().rule_of_names(level, name)


class RedpandaDriver(KafkaDriver):
    """Kafka's driver but for two things."""

    system = "redpanda"
    config_model = RedpandaConfig

    def name_of(self, topic, config):
        """The namespace whose policies a topic inherits stands before the first dash."""
        return TopicName(topic, topic.partition("-")[0] if "-" in topic else "default")


@hookimpl
def sluicegate_broker():
    return RedpandaDriver()
