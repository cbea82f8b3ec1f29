"""Danube, as the demo shows it (`sluicegate.demo.BrokerDemo`)."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from importlib.metadata import version

from sluicegate.broker import Extra
from sluicegate.demo.kinds import (
    attach_limits,
    dispatch_rates,
    fixed_delays,
    publish_rates,
    sizes,
    unacknowledged,
)
from sluicegate.demo.scene import Backend, Front, Scene, SharedBroker
from sluicegate_danube.demo import failover
from sluicegate_danube.demo.clients import DanubeClient, clients

_GHOST_RELEASE = "15s"
"""Three of the clients' health checks: on a slow machine one comes late."""
_FLEETING, _FAILOVER = "/default/fleeting", "/default/failover"
_UNRELIABLE = (_FLEETING, _FAILOVER)
_NOTES = (
    "the backend is two reference brokers: no registry serves Danube's own",
    "danube-client retries RESOURCE_EXHAUSTED: to attach 5 times, to send for ever; what the scenes "
    "show of a refused message is what a single try is told",
    "not shown: connection_rate_limit, as it would slow down all scenes; max_delivery_delay, as no "
    "producer can ask Danube for a delay",
)


@asynccontextmanager
async def _behind(front: Front) -> AsyncIterator[Backend]:
    from sluicegate_danube.reference import ReferenceBroker

    async with ReferenceBroker() as reference:
        there = await front(reference.addresses[0])
        cluster = reference.cluster
        cluster.settings = replace(cluster.settings, connect_urls=(f"http://{there}",))
        yield Backend({"bootstrap": [there], "ghost_release": _GHOST_RELEASE}, gateway_ports=2)


class DanubeDemo:
    """The reference broker behind the gateway, danube-client in front of it."""

    extra = Extra("sluicegate[danube]", {"danube": "danube-client", "grpc": "grpcio", "hpack": "hpack"})
    label = "in-memory reference broker, not Danube"
    scenes: tuple[Scene, ...] = (
        attach_limits.producers("/default/producers"),
        sizes.message_size("/default/size"),
        publish_rates.publish_rate("/default/rate", on_limit={"max_publish_rate": "delay"}),
        publish_rates.publish_rate_reject("/default/impatient"),
        sizes.observe_only("/default/observed"),
        sizes.live_change("/default/change"),
        attach_limits.subscriptions("/default/subscriptions"),
        attach_limits.consumers_of_topic("/default/consumers"),
        attach_limits.consumers_of_subscription("/default/workers"),
        dispatch_rates.dispatch_rate("/default/dispatch"),
        dispatch_rates.subscription_dispatch_rate("/default/readers"),
        dispatch_rates.dispatch_rate_drop(_FLEETING),
        unacknowledged.unacknowledged("/default/unacked"),
        fixed_delays.fixed_delay("/default/delayed"),
        failover.failover(_FAILOVER),
    )

    shared = SharedBroker("/default/orders", "/default/noisy-batch", _behind)

    @property
    def client(self) -> str:
        """The client and its version."""
        return f"danube-client {version('danube-client')}"

    @asynccontextmanager
    async def backend(self) -> AsyncIterator[Backend]:
        """Start two reference brokers."""
        from sluicegate_danube.demo.demo_cluster import DemoCluster

        topics = {scene.topic: scene.topic not in _UNRELIABLE for scene in self.scenes}
        async with DemoCluster(topics) as cluster:
            entry = {
                "bootstrap": cluster.addresses,
                "admin": {"url": cluster.url},
                "ghost_release": _GHOST_RELEASE,
                "resume_producers": True,
            }
            actions = {failover.GIVE: cluster.give, failover.KILL: cluster.kill}
            yield Backend(entry, _NOTES, actions, gateway_ports=1 + len(cluster.addresses))

    def clients(self, address: str) -> AbstractAsyncContextManager[DanubeClient]:
        """danube-client's clients of the gateway."""
        return clients(address)
