"""The caller's side of Danube's admin API."""

from typing import Any

import grpc.aio
from google.protobuf.message import Message

from sluicegate_danube.admin.topics_pb2 import (
    Empty,
    NamespaceListResponse,
    NamespaceRequest,
    PolicyResponse,
    SubscriptionListResponse,
    TopicRequest,
)

SERVICE = "danube_admin.TopicAdmin"
METHOD = "ListSubscriptions"
BROKERS = "danube_admin.BrokerAdmin"
LIST_NAMESPACES = "ListNamespaces"
NAMESPACES = "danube_admin.NamespaceAdmin"
POLICIES = "GetNamespacePolicies"
_TIMEOUT_S = 5.0


async def list_subscriptions(
    channel: grpc.aio.Channel, topic: str, *, token: str | None = None, timeout_s: float = _TIMEOUT_S
) -> list[str]:
    """Ask a broker for the subscriptions of a topic.

    :param channel: to the admin port of a broker.
    :param topic: `/namespace/topic`.
    :param token: of the caller; None if the broker has no authentication.
    :param timeout_s: how long to wait for the answer.
    :return: their names; none if there is no such topic.
    :raises grpc.aio.AioRpcError: if the broker does not answer, or refuses.
    """
    path, request = f"/{SERVICE}/{METHOD}", TopicRequest(name=topic)
    response = await _call(channel, path, request, SubscriptionListResponse, token, timeout_s)
    return list(response.subscriptions)


async def list_namespaces(channel: grpc.aio.Channel, *, token: str | None = None) -> list[str]:
    """Ask a broker for all namespaces of its cluster; parameters and errors as for `list_subscriptions`."""
    path = f"/{BROKERS}/{LIST_NAMESPACES}"
    response = await _call(channel, path, Empty(), NamespaceListResponse, token, _TIMEOUT_S)
    return sorted(response.namespaces)


async def namespace_policies(channel: grpc.aio.Channel, namespace: str, *, token: str | None = None) -> str:
    """Ask a broker for the policies of a namespace; parameters and errors as for `list_subscriptions`.

    :return: a JSON object.
    """
    path, request = f"/{NAMESPACES}/{POLICIES}", NamespaceRequest(name=namespace)
    return str((await _call(channel, path, request, PolicyResponse, token, _TIMEOUT_S)).policies)


async def _call(
    channel: grpc.aio.Channel,
    path: str,
    request: Message,
    response: type[Any],
    token: str | None,
    timeout_s: float,
) -> Any:
    call = channel.unary_unary(
        path,
        request_serializer=type(request).SerializeToString,
        response_deserializer=response.FromString,
    )
    metadata = (("authorization", f"Bearer {token}"),) if token is not None else None
    return await call(request, timeout=timeout_s, metadata=metadata)
