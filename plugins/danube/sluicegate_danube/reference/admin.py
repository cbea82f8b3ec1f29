"""The admin API, as far as the gateway asks it: subscriptions of topics, namespaces and their policies."""

import json
from collections.abc import Callable
from typing import Any

import grpc.aio
from grpc import StatusCode

from sluicegate_danube.admin import client
from sluicegate_danube.admin.topics_pb2 import (
    Empty,
    NamespaceListResponse,
    NamespaceRequest,
    PolicyResponse,
    SubscriptionListResponse,
    TopicRequest,
)
from sluicegate_danube.reference.answering import Context, answering
from sluicegate_danube.reference.broker_errors import RefusedError
from sluicegate_danube.reference.node import Service


class Admin(Service):
    """Parts of danube_admin's services of one broker. Danube has them on a port of their own."""

    @answering
    def list_subscriptions(self, request: TopicRequest, _: Context) -> SubscriptionListResponse:
        """Names of a topic's subscriptions; none if there is no such topic."""
        names = self._node.cluster.subscription_names(request.name)
        return SubscriptionListResponse(subscriptions=names)

    @answering
    def list_namespaces(self, request: Empty, _: Context) -> NamespaceListResponse:
        """Names of all namespaces."""
        return NamespaceListResponse(namespaces=self._node.cluster.namespaces())

    @answering
    def get_namespace_policies(self, request: NamespaceRequest, _: Context) -> PolicyResponse:
        """The policies that the broker's settings say it has; the reference broker enforces none."""
        if request.name not in self._node.cluster.namespaces():
            text = f"Unable to retrieve polices for the namespace {request.name}"
            raise RefusedError(StatusCode.NOT_FOUND, text)
        policies = self._node.cluster.settings.namespace_policies.get(request.name, {})
        return PolicyResponse(policies=json.dumps(policies))

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register them with a server."""
        methods: list[tuple[str, str, Callable[..., Any], type[Any]]] = [
            (client.SERVICE, client.METHOD, self.list_subscriptions, TopicRequest),
            (client.BROKERS, client.LIST_NAMESPACES, self.list_namespaces, Empty),
            (client.NAMESPACES, client.POLICIES, self.get_namespace_policies, NamespaceRequest),
        ]
        for service, name, method, request in methods:
            handler: grpc.RpcMethodHandler[Any, Any] = grpc.unary_unary_rpc_method_handler(
                method,
                request_deserializer=request.FromString,
                response_serializer=lambda answer: answer.SerializeToString(),
            )
            handlers = grpc.method_handlers_generic_handler(service, {name: handler})
            server.add_generic_rpc_handlers([handlers])
