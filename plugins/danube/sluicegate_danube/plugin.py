"""Danube as a plugin: loaded through the entry point group `sluicegate.plugins`."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sluicegate import hookimpl
from sluicegate.broker import BaseDriver, BrokerContext, Extra
from sluicegate.engine.pressure import PressureSource
from sluicegate.hooks import OpenedPolicies
from sluicegate.model import MethodMap, TopicName
from sluicegate.model.own_limits import BrokerTlsFiles, OwnSettings
from sluicegate_danube.config import DanubeConfig
from sluicegate_danube.method_map import METHOD_MAP
from sluicegate_danube.names import topic_name
from sluicegate_grpc.driver import GrpcDriver
from sluicegate_grpc.proxy.capabilities import capabilities_of

if TYPE_CHECKING:
    import click

    from sluicegate.demo.scene import BrokerDemo
    from sluicegate_danube.front import DanubeFront


_NATIVE = (
    "max_producers_per_topic",
    "max_subscriptions_per_topic",
    "max_consumers_per_topic",
    "max_consumers_per_subscription",
    "max_message_size",
)


class DanubeDriver(GrpcDriver):
    """The driver of gRPC brokers, with what Danube has beyond its method map."""

    system = "danube"
    config_model = DanubeConfig
    extra = Extra("sluicegate[danube]", {**GrpcDriver.extra.modules, "grpc": "grpcio"})
    capabilities: Mapping[str, str] = {**capabilities_of(METHOD_MAP), **dict.fromkeys(_NATIVE, "native")}
    """How the gateway supports each policy: `native` where Danube enforces it itself."""

    def __init__(self) -> None:
        super().__init__(METHOD_MAP, DanubeConfig, self.capabilities)

    def name_of(self, topic: str, config: DanubeConfig) -> TopicName:
        """The namespace is the first part; a partition has the name of the whole topic too."""
        return topic_name(topic)

    def front(self, config: DanubeConfig) -> "DanubeFront":
        """A front for one configured cluster; gates of other brokers do not load it."""
        from sluicegate_danube.front import DanubeFront

        return DanubeFront(config)

    def pressure_sources(self, context: BrokerContext) -> Sequence[PressureSource]:
        """Backlogs of topics, against a configured quota."""
        from sluicegate_danube.backlogs import pressure_sources

        return pressure_sources(context)

    async def own_settings(self, config: DanubeConfig, tls: BrokerTlsFiles) -> OwnSettings:
        """Policies of namespaces, from the admin API."""
        from sluicegate_danube.own_settings import own_settings

        return await own_settings(config, tls)

    def demo(self) -> "BrokerDemo":
        """What `sluicegate demo` shows of Danube."""
        from sluicegate_danube.demo import DanubeDemo

        return DanubeDemo()


@hookimpl
def sluicegate_broker() -> BaseDriver:
    """Offer Danube."""
    return DanubeDriver()


@hookimpl
def sluicegate_commands(open_policies: Callable[[str], OpenedPolicies]) -> "Sequence[click.Command]":
    """Offer `sluicegate danube failover`."""
    from sluicegate_danube.failover.commands import groups

    return groups()


@hookimpl
def sluicegate_method_map() -> MethodMap:
    """Say what Danube's methods are."""
    return METHOD_MAP
