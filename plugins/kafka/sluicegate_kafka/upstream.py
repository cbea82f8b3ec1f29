"""The gate's own questions to the broker: which nodes there are, which groups have offsets for a topic."""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Any

from sluicegate.config.models import BrokerTls
from sluicegate.config.tls import context_for_broker
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.login import login_options

_AT_ONCE = 16


class Upstream:
    """Asks one Kafka cluster under the gate's own identity."""

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config
        self.tls_for: Callable[[BrokerTls], ssl.SSLContext] = context_for_broker
        """Gives what a TLS section of the entry says; set before the first question."""
        self._admin: Any | None = None
        self._lock = asyncio.Lock()

    async def nodes(self) -> Mapping[int, tuple[str, int]]:
        """Broker addresses by node id.

        :raises Exception: whatever the client library raises if the broker cannot be asked.
        """
        async with self._lock:
            admin = await self._connected()
            described = await admin.describe_cluster()
        return {node["node_id"]: (node["host"], node["port"]) for node in described["brokers"]}

    async def groups_by_topic(self) -> Mapping[str, set[str]]:
        """Groups with committed offsets, by topic.

        :raises PermissionError: if the broker would leave out groups that the gate may not see.
        :raises Exception: whatever the client library raises if the broker cannot be asked.
        """
        async with self._lock:
            admin = await self._connected()
            if not await admin.may_see_all_groups():
                raise PermissionError("the gate's own login needs Describe on the cluster, groups and topics")
            groups = {group[0] for group in await admin.list_consumer_groups()}
            found: dict[str, set[str]] = {}
            slots = asyncio.Semaphore(_AT_ONCE)

            async def offsets(group: str) -> None:
                async with slots:
                    for topic in await admin.topics_of(group):
                        found.setdefault(topic, set()).add(group)

            await asyncio.gather(*(offsets(group) for group in groups))
        return found

    async def _connected(self) -> Any:
        if self._admin is None:
            from sluicegate_kafka.admin import Admin

            admin = Admin(**login_options(self._config, self.tls_for))
            try:
                await admin.start()
            except BaseException:
                await admin.close()
                raise
            self._admin = admin
        return self._admin

    async def close(self) -> None:
        """Close the gate's own connections."""
        admin, self._admin = self._admin, None
        if admin is not None:
            await admin.close()
