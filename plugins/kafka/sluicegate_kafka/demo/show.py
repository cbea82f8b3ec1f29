"""Kafka, as the demo shows it (`sluicegate.demo.BrokerDemo`)."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version

from sluicegate.broker import Extra
from sluicegate.demo.kinds import attach_limits, dispatch_rates, fixed_delays, publish_rates, sizes
from sluicegate.demo.scene import Backend, Front, Scene, SharedBroker
from sluicegate_kafka.demo import filling, only_kafka
from sluicegate_kafka.demo.clients import KafkaClient, clients
from sluicegate_kafka.demo.mock_cluster import LABEL, mock_cluster
from sluicegate_kafka.demo.moved_node import MovedNode

_NOTES = (
    "the mock cluster cannot list consumer groups, so here max_subscriptions_per_topic counts the groups "
    "that joined through the gateway (on_unknown: last); a real broker is asked which groups exist",
    "the mock's group coordinator takes no second member from aiokafka (nor without the gateway), "
    "so groups here have one member each",
    "the gateway refuses group members of aiokafka with error 30, as it has no name for 81 "
    "GROUP_MAX_SIZE_REACHED, which librdkafka and the Java client get",
    "not shown: connection_rate_limit, as it would slow down all scenes; "
    "max_unacked_messages_per_consumer, as Kafka's consumers acknowledge no single messages",
)
_NODES = 1


@asynccontextmanager
async def _behind(front: Front) -> AsyncIterator[Backend]:
    async with mock_cluster(_NODES) as [address]:
        port = int(address.rpartition(":")[2])
        there = await front(address, lambda disk: MovedNode(port, disk).answer)
        yield Backend({"bootstrap": [there]}, _NOTES, gateway_ports=2 + _NODES)


class KafkaDemo:
    """librdkafka's mock cluster behind the gateway, aiokafka in front of it."""

    extra = Extra("sluicegate[kafka]", {"aiokafka": "aiokafka", "confluent_kafka": "confluent-kafka"})
    label = LABEL
    scenes: tuple[Scene, ...] = (
        attach_limits.producers("demo.producers"),
        sizes.message_size("demo.size"),
        publish_rates.publish_rate("demo.rate"),
        publish_rates.publish_rate_bytes("demo.byterate"),
        publish_rates.publish_rate_reject("demo.impatient", on_limit={"max_publish_rate": "reject"}),
        sizes.observe_only("demo.observed"),
        sizes.live_change("demo.change"),
        attach_limits.subscriptions("demo.subscriptions", on_unknown={"max_subscriptions_per_topic": "last"}),
        attach_limits.consumers_of_topic("demo.consumers", one_each=True),
        attach_limits.consumers_of_subscription("demo.workers", limit=1),
        dispatch_rates.dispatch_rate("demo.dispatch"),
        dispatch_rates.subscription_dispatch_rate("demo.readers"),
        fixed_delays.fixed_delay("demo.delayed"),
        *only_kafka.SCENES,
        *filling.SCENES,
    )

    # A producer of aiokafka has one request under way to a node.
    shared = SharedBroker("orders", "noisy", _behind, producers=40)

    @property
    def client(self) -> str:
        """The client and its version."""
        return f"aiokafka {version('aiokafka')}"

    @asynccontextmanager
    async def backend(self) -> AsyncIterator[Backend]:
        """Start the mock cluster."""
        async with mock_cluster(_NODES) as addresses:
            # The nodes count from 1, and the port after the listener's is node 0's.
            yield Backend({"bootstrap": list(addresses)}, _NOTES, gateway_ports=2 + _NODES)

    def clients(self, address: str) -> AbstractAsyncContextManager[KafkaClient]:
        """Aiokafka's clients of the gateway."""
        return clients(address)
