"""Kafka as a plugin: loaded through the entry point group `sluicegate.plugins`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sluicegate import hookimpl
from sluicegate.broker import BaseDriver, BrokerContext, Extra
from sluicegate.engine.factors import Factor
from sluicegate.engine.pressure import PressureSource
from sluicegate.engine.task import Task
from sluicegate.model import TopicName
from sluicegate.model.own_limits import BrokerTlsFiles, OwnSettings
from sluicegate_kafka.config import KafkaConfig

if TYPE_CHECKING:
    from sluicegate.demo.scene import BrokerDemo
    from sluicegate_kafka.front import KafkaFront


class KafkaDriver(BaseDriver):
    """The driver of Kafka, and of brokers that speak its protocol."""

    system = "kafka"
    config_model = KafkaConfig
    client_loggers = ("aiokafka",)
    extra = Extra("sluicegate[kafka]", {"aiokafka": "aiokafka"})
    capabilities: Mapping[str, str] = {
        "max_producers_per_topic": "emulated",
        "max_subscriptions_per_topic": "emulated",
        "max_consumers_per_topic": "emulated",
        "max_consumers_per_subscription": "emulated",
        "max_publish_rate": "emulated",
        "max_publish_rate_bytes": "emulated",
        "max_dispatch_rate": "emulated",
        "max_dispatch_rate_bytes": "emulated",
        "max_subscription_dispatch_rate": "emulated",
        "max_subscription_dispatch_rate_bytes": "emulated",
        "max_message_size": "emulated",
        "inspect": "emulated",
        "connection_rate_limit": "emulated",
        "allow_topic_creation": "emulated",
        "max_partitions": "emulated",
        "publish_quota": "emulated",
        "publish_quota_bytes": "emulated",
        "principal_publish_quota": "emulated",
        "principal_publish_quota_bytes": "emulated",
        "consume_quota": "emulated",
        "consume_quota_bytes": "emulated",
        "principal_consume_quota": "emulated",
        "principal_consume_quota_bytes": "emulated",
        "read_only": "emulated",
        "write_only": "emulated",
        "client_id_pattern": "emulated",
        "required_headers": "emulated",
        "forbidden_headers": "emulated",
        "remove_headers": "emulated",
        "allowed_content": "emulated",
        "storage_quota": "emulated",
        "fixed_delivery_delay": "emulated",
        "max_delivery_delay": "not applicable",
        "delay_header": "not applicable",
        "max_unacked_messages_per_consumer": "not applicable",
    }
    """How far Kafka takes each policy; what is not applicable is warned of by `sluicegate check`."""

    def name_of(self, topic: str, config: KafkaConfig) -> TopicName:
        """The namespace is the part of the name before the first separator, else `default`."""
        if not config.namespace_separator:
            return TopicName(topic, "default")
        head, separator, _ = topic.partition(config.namespace_separator)
        return TopicName(topic, head if separator and head else "default")

    def front(self, config: KafkaConfig) -> "KafkaFront":
        """A front for one configured cluster; gateways of other brokers do not load it."""
        from sluicegate_kafka.front import KafkaFront

        return KafkaFront(config)

    def quota_factors(self, context: BrokerContext) -> Sequence[Factor]:
        """Storage quotas by the brokers' reports, and over a topic of snapshots."""
        if context.config.storage is None:
            return ()
        from sluicegate_kafka.cluster.storage import factors

        return factors(context)

    def pressure_sources(self, context: BrokerContext) -> Sequence[PressureSource]:
        """Backlogs of topics, from consumer groups and log directories."""
        from sluicegate_kafka.cluster.backlogs import pressure_sources

        return pressure_sources(context)

    def tasks(self, context: BrokerContext) -> Sequence[Task]:
        """The reading for storage quotas."""
        if context.config.storage is None:
            return ()
        from sluicegate_kafka.cluster.storage import tasks

        return tasks(context)

    async def own_settings(self, config: KafkaConfig, tls: BrokerTlsFiles) -> OwnSettings:
        """Client quotas, configs of topics and of brokers."""
        from sluicegate_kafka.cluster.own_settings import own_settings

        return await own_settings(config, tls)

    def demo(self) -> "BrokerDemo":
        """What `sluicegate demo` shows of Kafka."""
        from sluicegate_kafka.demo.show import KafkaDemo

        return KafkaDemo()


@hookimpl
def sluicegate_broker() -> BaseDriver:
    """Offer Kafka."""
    return KafkaDriver()
