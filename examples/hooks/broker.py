"""Broker kind `redpanda`: Kafka's protocol, with what stands before the first dash as the namespace."""

from typing import Literal

from sluicegate import hookimpl
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.plugin import KafkaDriver


class RedpandaConfig(KafkaConfig):
    """The entry under `brokers:`, chosen by `system: redpanda`."""

    system: Literal["redpanda"]


class RedpandaDriver(KafkaDriver):
    """Kafka's driver but for two things."""

    system = "redpanda"
    config_model = RedpandaConfig

    def namespace_of(self, topic, config):
        """The namespace whose policies a topic inherits."""
        return topic.partition("-")[0] if "-" in topic else "default"


@hookimpl
def sluicegate_broker():
    return RedpandaDriver()
