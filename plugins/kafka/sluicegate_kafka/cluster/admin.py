"""The gateway's own admin client: aiokafka's, with the errors that it ignores.

ListGroups has no error for a client that may not see all groups: it leaves out those that it may not see.
And aiokafka ignores the error of a whole OffsetFetch response.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.conn import create_conn
from aiokafka.errors import KafkaConnectionError, for_code
from aiokafka.protocol.admin import DescribeClientQuotasRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.types import Array, Boolean, Int32, Schema, String

from sluicegate_kafka.cluster.described_configs import Config, configs_of
from sluicegate_kafka.cluster.log_dirs import AskLogDirs, LogDir, Partition, log_dirs
from sluicegate_kafka.cluster.own_clients import own_client
from sluicegate_kafka.codec import errors

_METADATA = 3
_DESCRIBE = 1 << 8
"""Kafka's AclOperation DESCRIBE in a bit field of operations."""
_RETENTION_BYTES = "retention.bytes"
_OF_CLUSTER = frozenset({"bootstrap_servers", "retry_backoff_ms"})
"""Options that a single connection does not have."""
_AT_ONCE = 16
"""Groups that are asked about at the same time."""
_REPLICAS = 3
"""Replicas of a topic that the gateway creates, if there are as many brokers."""


class _Rights(Response):  # type: ignore[misc]
    """Metadata 8: the first version that returns the client's permissions."""

    API_KEY = _METADATA
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            Array(("node_id", Int32), ("host", String("utf-8")), ("port", Int32), ("rack", String("utf-8"))),
        ),
        ("cluster_id", String("utf-8")),
        ("controller_id", Int32),
        ("topics", Array(Int32)),  # none are asked for
        ("cluster_authorized_operations", Int32),
    )


class _RightsRequest(RequestStruct):  # type: ignore[misc]
    API_KEY = _METADATA
    API_VERSION = 8
    RESPONSE_TYPE = _Rights
    SCHEMA = Schema(
        ("topics", Array(String("utf-8"))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
    )


class _AskRights(Request[_RightsRequest]):  # type: ignore[misc]
    API_KEY = _METADATA

    def build(self, request_struct_class: type[_RightsRequest]) -> _RightsRequest:
        return request_struct_class([], False, True, False)


class Admin(AIOKafkaAdminClient):  # type: ignore[misc]
    """An `AIOKafkaAdminClient` with the further requests that the gateway needs; see `own_client`.

    :param options: those of aiokafka.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._options = options

    async def start(self) -> None:
        """Connect and log in.

        :raises aiokafka.errors.KafkaError: if no broker can be reached or accepts the login.
        """
        try:
            await super().start()
        except KafkaConnectionError:
            # aiokafka only logs the reason: ask the first address for it once more.
            host, port, _ = self._client.hosts[0]
            known = {name: value for name, value in self._options.items() if name not in _OF_CLUSTER}
            probe = await create_conn(host, port, **known)
            probe.close()
            raise

    async def committed(self, most: int | None = None) -> Mapping[str, Mapping[Partition, int]]:
        """The offsets that each group has committed; none of a group that no longer exists.

        :param most: groups that are asked about; all if None.
        :raises PermissionError: if the broker would leave out groups that the gateway may not see.
        :raises aiokafka.errors.KafkaError: if the broker does not answer.
        """
        rights = await self._send_request(_AskRights())
        if not rights.cluster_authorized_operations & _DESCRIBE:
            raise PermissionError("the gateway's login needs Describe on the cluster, groups and topics")
        groups = [group[0] for group in await self.list_consumer_groups()][:most]
        slots = asyncio.Semaphore(_AT_ONCE)

        async def offsets(group: str) -> Mapping[Partition, int]:
            async with slots:
                return await self._offsets_of(group)

        return dict(zip(groups, await asyncio.gather(*map(offsets, groups)), strict=True))

    async def _offsets_of(self, group: str) -> Mapping[Partition, int]:
        coordinator = await self.find_coordinator(group)
        response: Any = await self._send_request(OffsetFetchRequest(group, None), coordinator)
        if response.error_code not in (errors.NONE, errors.GROUP_ID_NOT_FOUND):
            raise for_code(response.error_code)(f"offsets of group {group!r}")
        return {
            (topic, number): offset
            for topic, partitions in response.topics
            for number, offset, *_ in partitions
        }

    async def node_ids(self) -> list[int]:
        """Ids of the brokers that are up.

        :raises aiokafka.errors.KafkaError: if the broker does not answer.
        """
        # Not aiokafka's `describe_cluster`, which also lists all topics, and there may be thousands.
        response: Any = await self._send_request(_AskRights())
        return [node_id for node_id, *_ in response.brokers]

    async def log_dirs(self, node_id: int, partitions: Iterable[Partition] = ()) -> list[LogDir]:
        """The log directories of a broker.

        :param partitions: to return sizes of as well.
        :raises aiokafka.errors.KafkaError: if the broker cannot be reached, or refuses.
        :raises OfflineLogDirError: if one of its directories is offline.
        """
        return log_dirs(await self._send_request(AskLogDirs(partitions), node_id))

    async def partitions_of(self, topics: Collection[str]) -> list[Partition]:
        """The partitions of topics, as far as these exist.

        :raises aiokafka.errors.KafkaError: if the broker cannot be reached.
        """
        # Ask for all topics: asking for one by name may create it.
        return sorted(
            (described["topic"], each["partition"])
            for described in await self.describe_topics()
            if described["topic"] in topics
            for each in described["partitions"]
        )

    async def retention_bytes(self, topics: Collection[str]) -> Mapping[str, int]:
        """How many bytes each partition of a topic may have; below 0 if there is no bound.

        :raises aiokafka.errors.KafkaError: if the broker cannot be reached.
        """
        wanted = [
            ConfigResource(ConfigResourceType.TOPIC, topic, {_RETENTION_BYTES: None}) for topic in topics
        ]
        return {
            name: int(value)
            for response in await self.describe_configs(wanted)
            for code, _, _, name, entries in response.resources
            if code == errors.NONE
            for key, value, *_ in entries
            if key == _RETENTION_BYTES
        }

    async def topic_names(self) -> list[str]:
        """All topics that the gateway may see, sorted.

        :raises aiokafka.errors.KafkaError: if the broker does not answer.
        """
        return sorted(await self.list_topics())

    async def configs(
        self, kind: ConfigResourceType, names: Iterable[str], keys: Iterable[str]
    ) -> Mapping[str, list[Config]]:
        """Some configs of topics or brokers, by their name or id.

        :param kind: what they are.
        :raises aiokafka.errors.KafkaError: if a broker does not answer, or refuses one of them.
        """
        wanted = [ConfigResource(kind, name, dict.fromkeys(keys)) for name in names]
        described = await self.describe_configs(wanted)
        return {name: value for response in described for name, value in configs_of(response.resources)}

    async def client_quotas(self) -> list[tuple[Mapping[str, str | None], Mapping[str, float]]]:
        """All client quotas: types and names of each entity, None for a default, with its values.

        :raises aiokafka.errors.KafkaError: if the broker does not answer, or refuses.
        """
        response: Any = await self._send_request(DescribeClientQuotasRequest([], strict=False))
        if response.error_code != errors.NONE:
            raise for_code(response.error_code)("client quotas")
        return [(dict(entity), dict(values)) for entity, values in response.entries]

    async def make_compacted(self, topic: str) -> None:
        """Make a compacted topic of one partition, unless it is there.

        :raises aiokafka.errors.KafkaError: if the broker refuses.
        """
        replicas = min(_REPLICAS, len(await self.node_ids()))
        wanted = NewTopic(topic, 1, replicas, topic_configs={"cleanup.policy": "compact"})
        response: Any = await self.create_topics([wanted])
        for _, code, *_ in response.topic_errors:
            if code not in (errors.NONE, errors.TOPIC_ALREADY_EXISTS):
                raise for_code(code)(f"topic {topic}")


@asynccontextmanager
async def admin_client(options: Mapping[str, Any]) -> AsyncIterator[Admin]:
    """An admin client for a few requests.

    :param options: as `login_options` makes them.
    :raises aiokafka.errors.KafkaError: if no broker can be reached.
    """
    admin = own_client(Admin, options)
    try:
        await admin.start()
        yield admin
    finally:
        await admin.close()
