"""The admin API of topics: only ListSubscriptions of danube_admin.TopicAdmin."""

import grpc.aio

from sluicegate_danube.admin.client import METHOD, SERVICE
from sluicegate_danube.admin.topics_pb2 import SubscriptionListResponse, TopicRequest
from sluicegate_danube.reference.answering import Context, answering
from sluicegate_danube.reference.node import Service


class Admin(Service):
    """danube_admin.TopicAdmin of one broker. Danube has it on a port of its own."""

    @answering
    def list_subscriptions(self, request: TopicRequest, _: Context) -> SubscriptionListResponse:
        """Names of a topic's subscriptions; none if there is no such topic."""
        names = self._node.cluster.subscription_names(request.name)
        return SubscriptionListResponse(subscriptions=names)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register it with a server."""
        handler = grpc.unary_unary_rpc_method_handler(
            self.list_subscriptions,
            request_deserializer=TopicRequest.FromString,
            response_serializer=SubscriptionListResponse.SerializeToString,
        )
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})])
