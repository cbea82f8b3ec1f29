"""Pulsar as a plugin: loaded through the entry point group `sluicegate.plugins`."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sluicegate import hookimpl
from sluicegate.broker import BaseDriver, BrokerContext, Extra, WebServices
from sluicegate.engine.pressure import PressureSource
from sluicegate.hooks import OpenedPolicies
from sluicegate.model import TopicName
from sluicegate.model.own_limits import BrokerTlsFiles, OwnSettings
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.config import PulsarConfig
from sluicegate_pulsar.names import topic_name

if TYPE_CHECKING:
    import click

    from sluicegate.demo.scene import BrokerDemo
    from sluicegate_pulsar.front import PulsarFront
    from sluicegate_pulsar.web.site import PulsarSite


class PulsarDriver(BaseDriver):
    """The driver of Pulsar."""

    system = "pulsar"
    config_model = PulsarConfig
    extra = Extra("sluicegate[pulsar]", {"google.protobuf": "protobuf", "httpx": "httpx"})
    capabilities: Mapping[str, str] = {
        "max_producers_per_topic": "native",
        "max_subscriptions_per_topic": "native",
        "max_consumers_per_topic": "native",
        "max_consumers_per_subscription": "native",
        "max_publish_rate": "native",
        "max_publish_rate_bytes": "native",
        "max_dispatch_rate": "native",
        "max_dispatch_rate_bytes": "native",
        "max_subscription_dispatch_rate": "native",
        "max_subscription_dispatch_rate_bytes": "native",
        "max_message_size": "native",
        "inspect": "not applicable",
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
        "storage_quota": "emulated",
        "fixed_delivery_delay": "emulated",
        "max_delivery_delay": "native",
        "delay_header": "emulated",
        "required_headers": "emulated",
        "forbidden_headers": "emulated",
        "remove_headers": "emulated",
        "allowed_content": "emulated",
        "max_unacked_messages_per_consumer": "native",
    }
    """How the gateway supports each policy: as Pulsar does, by other means, or not at all."""

    def name_of(self, topic: str, config: PulsarConfig) -> TopicName:
        """Tenant and namespace, and the short forms; a partition also has its partitioned topic's names."""
        try:
            return topic_name(topic)
        except ProtocolError:
            return TopicName(topic, "")

    def front(self, config: PulsarConfig) -> "PulsarFront":
        """A front for one configured cluster; gateways of other brokers do not load it."""
        from sluicegate_pulsar.front import PulsarFront

        return PulsarFront(config)

    def pressure_sources(self, context: BrokerContext) -> Sequence[PressureSource]:
        """Backlogs of topics, from the admin API."""
        from sluicegate_pulsar.cluster.backlogs import pressure_sources

        return pressure_sources(context)

    def web(self, config: PulsarConfig, services: WebServices) -> "PulsarSite | None":
        """The web listener of one configured cluster; None if its entry has none."""
        if config.web is None:
            return None
        from sluicegate_pulsar.web.site import PulsarSite

        return PulsarSite(config, services)

    async def own_settings(self, config: PulsarConfig, tls: BrokerTlsFiles) -> OwnSettings:
        """Configuration of brokers, and policies of namespaces and topics, from the admin API."""
        from sluicegate_pulsar.cluster.own_settings import own_settings

        return await own_settings(config, tls)

    def demo(self) -> "BrokerDemo":
        """What `sluicegate demo` shows of Pulsar."""
        from sluicegate_pulsar.demo.show import PulsarDemo

        return PulsarDemo()


@hookimpl
def sluicegate_broker() -> BaseDriver:
    """Offer Pulsar."""
    return PulsarDriver()


@hookimpl
def sluicegate_commands(open_policies: Callable[[str], OpenedPolicies]) -> "Sequence[click.Command]":
    """Offer `sluicegate topics`, `sluicegate topicPolicies` and `sluicegate namespaces`."""
    from sluicegate_pulsar.commands.delayed import groups

    return groups(open_policies)
