"""Pulsar, as the demo shows it (`sluicegate.demo.BrokerDemo`)."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
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
from sluicegate_pulsar.demo import only_pulsar, pressing
from sluicegate_pulsar.demo.clients import PulsarClient, clients

_NOTES = ("not shown: connection_rate_limit, as it would slow down all scenes",)


def _topic(name: str) -> str:
    return f"persistent://public/default/{name}"


@asynccontextmanager
async def _behind(front: Front) -> AsyncIterator[Backend]:
    from sluicegate_pulsar.reference import ReferenceBroker

    async with ReferenceBroker() as reference:
        there = await front(reference.service_url.removeprefix("pulsar://"))
        reference.broker.service_url = f"pulsar://{there}"
        yield Backend({"bootstrap": [there], "admin": {"url": reference.admin_url}})


class PulsarDemo:
    """The reference broker behind the gateway, pulsar-client in front of it."""

    extra = Extra(
        "sluicegate[pulsar]", {"pulsar": "pulsar-client", "google.protobuf": "protobuf", "httpx": "httpx"}
    )
    label = "in-memory reference broker, not Pulsar"
    scenes: tuple[Scene, ...] = (
        attach_limits.producers(_topic("producers")),
        sizes.message_size(_topic("size")),
        publish_rates.publish_rate(_topic("rate")),
        publish_rates.publish_rate_reject(_topic("impatient"), on_limit={"max_publish_rate": "reject"}),
        *only_pulsar.SCENES,
        sizes.observe_only(_topic("observed")),
        sizes.live_change(_topic("change")),
        attach_limits.subscriptions(_topic("subscriptions")),
        attach_limits.consumers_of_topic(_topic("consumers")),
        attach_limits.consumers_of_subscription(_topic("workers")),
        dispatch_rates.dispatch_rate(_topic("dispatch")),
        dispatch_rates.subscription_dispatch_rate(_topic("readers")),
        unacknowledged.unacknowledged(_topic("unacked")),
        fixed_delays.fixed_delay(_topic("delayed-shared"), in_order=False),
        fixed_delays.fixed_delay(
            _topic("delayed-exclusive"),
            "fixed-delay-exclusive",
            "the same on an exclusive subscription, where the broker itself does not delay",
            exclusive=True,
        ),
        fixed_delays.fixed_delay(
            _topic("delayed-always"),
            "fixed-delay-overrides",
            "the same for messages whose client asks for delivery at once",
            in_order=False,
            deliver_at=1,
        ),
        *pressing.SCENES,
    )

    shared = SharedBroker(_topic("orders"), _topic("noisy-batch"), _behind)

    @property
    def client(self) -> str:
        """The client and its version."""
        return f"pulsar-client {version('pulsar-client')}"

    @asynccontextmanager
    async def backend(self) -> AsyncIterator[Backend]:
        """Start the reference broker."""
        from sluicegate_pulsar.reference import ReferenceBroker

        async with ReferenceBroker() as broker:
            entry = {
                "bootstrap": [broker.service_url.removeprefix("pulsar://")],
                "admin": {"url": broker.admin_url},
                "strict": "yes",
            }
            yield Backend(entry, _NOTES)

    def clients(self, address: str) -> AbstractAsyncContextManager[PulsarClient]:
        """pulsar-client's clients of the gateway."""
        return clients(address)
