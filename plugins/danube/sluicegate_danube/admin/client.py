"""The caller's side of Danube's admin API."""

import grpc.aio

from sluicegate_danube.admin.topics_pb2 import SubscriptionListResponse, TopicRequest

SERVICE = "danube_admin.TopicAdmin"
METHOD = "ListSubscriptions"


async def list_subscriptions(
    channel: grpc.aio.Channel, topic: str, *, token: str | None = None, timeout_s: float = 5.0
) -> list[str]:
    """Ask a broker for the subscriptions of a topic.

    :param channel: to the admin port of a broker.
    :param topic: `/namespace/topic`.
    :param token: of the caller; None if the broker has no authentication.
    :param timeout_s: how long to wait for the answer.
    :return: their names; none if there is no such topic.
    :raises grpc.aio.AioRpcError: if the broker does not answer, or refuses.
    """
    call = channel.unary_unary(
        f"/{SERVICE}/{METHOD}",
        request_serializer=TopicRequest.SerializeToString,
        response_deserializer=SubscriptionListResponse.FromString,
    )
    metadata = (("authorization", f"Bearer {token}"),) if token is not None else None
    answer = await call(TopicRequest(name=topic), timeout=timeout_s, metadata=metadata)
    return list(answer.subscriptions)
