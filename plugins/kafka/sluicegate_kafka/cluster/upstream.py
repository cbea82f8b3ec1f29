"""The gateway's own requests to the broker: its nodes, and the groups with offsets for a topic."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from time import monotonic_ns
from typing import Any

from sluicegate.config.models import BrokerTls
from sluicegate.config.tls import context_for_broker
from sluicegate.pacing.backoff import Backoff
from sluicegate_kafka.cluster.login import login_options
from sluicegate_kafka.cluster.own_clients import own_client
from sluicegate_kafka.config import KafkaConfig

_FIRST_WAIT_NS = 1_000_000_000
_LONGEST_WAIT_NS = 30_000_000_000


class BackingOffError(Exception):
    """The request was not sent, as the last one failed a moment ago; the message says why."""


class Upstream:
    """Sends requests to one Kafka cluster under the gateway's own identity.

    After a failure it closes the connection and backs off for a second, then longer, up to 30 seconds: so a
    refused login is neither retried nor logged as often as clients ask.

    :param config: of the cluster.
    :param now_ns: gives the monotonic time.
    """

    def __init__(self, config: KafkaConfig, now_ns: Callable[[], int] = monotonic_ns) -> None:
        self._config = config
        self.tls_for: Callable[[BrokerTls], ssl.SSLContext] = context_for_broker
        """Gives what a TLS section of the entry says; set before the first question."""
        self._now_ns = now_ns
        self._backoff = Backoff(_FIRST_WAIT_NS, _LONGEST_WAIT_NS)
        self._failure = ""
        """Why the last question failed."""
        self._admin: Any | None = None
        self._lock = asyncio.Lock()

    def reset_backoff(self) -> None:
        """End the back-off: the broker is reachable again."""
        self._backoff.reset()

    async def nodes(self) -> Mapping[int, tuple[str, int]]:
        """Broker addresses by node id.

        :raises BackingOffError: if it is too soon after a failure.
        :raises Exception: whatever the client library raises if the broker cannot be reached.
        """
        async with self._asking() as admin:
            described = await admin.describe_cluster()
        return {node["node_id"]: (node["host"], node["port"]) for node in described["brokers"]}

    async def groups_by_topic(self) -> Mapping[str, set[str]]:
        """Groups with committed offsets, by topic.

        :raises PermissionError: if the broker would leave out groups that the gateway may not see.
        :raises BackingOffError: if it is too soon after a failure.
        :raises Exception: whatever the client library raises if the broker cannot be reached.
        """
        async with self._asking() as admin:
            committed = await admin.committed()
        by_topic: dict[str, set[str]] = {}
        for group, offsets in committed.items():
            for topic in {topic for topic, _ in offsets}:
                by_topic.setdefault(topic, set()).add(group)
            await asyncio.sleep(0)  # each group may have thousands of partitions
        return by_topic

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[Any]:
        """The admin client, for one request at a time."""
        async with self._lock:
            if left_ns := self._backoff.wait_ns(self._now_ns()):
                raise BackingOffError(f"{self._failure}; not asked again for {left_ns / 1e9:.1f} s")
            try:
                yield await self._connected()
            except Exception as error:
                self._failure = str(error) or type(error).__name__
                self._backoff.failed(self._now_ns())
                await self.close()
                raise
            self._backoff.reset()

    async def _connected(self) -> Any:
        if self._admin is None:
            from sluicegate_kafka.cluster.admin import Admin

            admin = own_client(Admin, login_options(self._config, self.tls_for))
            try:
                await admin.start()
            except BaseException:
                await admin.close()
                raise
            self._admin = admin
        return self._admin

    async def close(self) -> None:
        """Close the gateway's own connections."""
        admin, self._admin = self._admin, None
        if admin is not None:
            await admin.close()
