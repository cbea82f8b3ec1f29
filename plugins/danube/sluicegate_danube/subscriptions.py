"""The gateway's own requests to a cluster's admin API: which subscriptions a topic has."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sluicegate.broker.broker_ports import shown
from sluicegate_danube.brokers import address_of
from sluicegate_danube.channels import connect
from sluicegate_danube.config import DanubeConfig

if TYPE_CHECKING:
    import grpc.aio

_GRACE_S = 5.0
"""For questions under way on a channel that is let go."""


class SubscriptionLists:
    """Asks one cluster under the gateway's own identity.

    gRPC's client takes more memory than the rest of the gateway: it is loaded by the first question.

    :param config: of the cluster.
    """

    def __init__(self, config: DanubeConfig) -> None:
        self._config = config
        self.renewals: Callable[[], int] = lambda: 0
        """How often the TLS files were read anew; the front's."""
        self._channel: grpc.aio.Channel | None = None
        self._renewals = 0
        """`renewals` when the channel was made."""

    async def of(self, topic: str) -> list[str]:
        """Names of a topic's subscriptions; none if the topic does not exist yet.

        :raises LookupError: if no admin API is configured.
        :raises OSError: if a file of `tls.broker` cannot be read.
        :raises grpc.aio.AioRpcError: if it cannot be asked.
        """
        admin = self._config.admin
        if admin is None:
            raise LookupError("no `admin` is configured")
        from sluicegate_danube.admin.client import list_subscriptions

        outdated = self._outdated_channel()
        if self._channel is None:
            target = shown(address_of(admin.url))
            self._channel = connect(self._config, target, is_tls=admin.url.startswith("https:"))
        try:
            return await list_subscriptions(self._channel, topic, token=admin.token)
        finally:
            if outdated is not None:
                await outdated.close(grace=_GRACE_S)

    def _outdated_channel(self) -> "grpc.aio.Channel | None":
        """Give up the channel if its files have been renewed since, as gRPC reads them only once."""
        renewals = self.renewals()
        if renewals == self._renewals:
            return None
        self._renewals = renewals
        outdated, self._channel = self._channel, None
        return outdated

    async def close(self) -> None:
        """End the connection."""
        if self._channel is not None:
            await self._channel.close()
