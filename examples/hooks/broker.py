"""Broker kind `redpanda`: Kafka's protocol, with what stands before the first dash as the namespace."""

from typing import Literal

from sluicegate.api import hookimpl
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.plugin import KafkaDriver


class RedpandaConfig(KafkaConfig):
    """The entry under `brokers:`, chosen by `system: redpanda`."""

    system: Literal["redpanda"]
    namespace_separator: str = "-"


class RedpandaDriver(KafkaDriver):
    """Kafka's driver for that entry."""

    system = "redpanda"
    config_model = RedpandaConfig


@hookimpl
def sluicegate_broker():
    return RedpandaDriver()
