"""The gate's own admin client: aiokafka's, where it passes over what must not count as "there are none".

ListGroups has no error for a client that may not see all groups: it leaves out those that it may not see.
And aiokafka itself does not look at the error of a whole OffsetFetch response.
"""

from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.types import Array, Boolean, Int32, Schema, String

from sluicegate_kafka.codec import errors

_METADATA = 3
_DESCRIBE = 1 << 8
"""Kafka's AclOperation DESCRIBE in a bit field of operations."""


class _Rights(Response):  # type: ignore[misc]
    """Metadata 8: the first version that tells what the client may do."""

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
    """An `AIOKafkaAdminClient` with the questions that the gate has besides."""

    async def may_see_all_groups(self) -> bool:
        """Whether a list of groups is complete, or only of what this client may see."""
        rights = await self._send_request(_AskRights())
        return bool(rights.cluster_authorized_operations & _DESCRIBE)

    async def topics_of(self, group: str) -> set[str]:
        """Topics for which a group has committed offsets; none if there is no such group any more.

        :raises aiokafka.errors.KafkaError: if the broker cannot tell.
        """
        coordinator = await self.find_coordinator(group)
        response: Any = await self._send_request(OffsetFetchRequest(group, None), coordinator)
        if response.error_code not in (errors.NONE, errors.GROUP_ID_NOT_FOUND):
            raise for_code(response.error_code)(f"offsets of group {group!r}")
        return {topic for topic, _ in response.topics}
