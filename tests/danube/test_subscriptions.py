"""The gate's own questions to the admin API."""

from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import pytest

from sluicegate_danube.admin.client import METHOD, SERVICE
from sluicegate_danube.admin.topics_pb2 import SubscriptionListResponse, TopicRequest
from sluicegate_danube.config import DanubeConfig
from sluicegate_danube.subscriptions import SubscriptionLists


def lists(**entry: Any) -> SubscriptionLists:
    base = {"name": "d", "system": "danube", "bootstrap": ["b:6650"], "listen": {"port": 1}}
    return SubscriptionLists(DanubeConfig.model_validate({**base, **entry}))


@pytest.fixture
async def admin() -> AsyncIterator[str]:
    """An admin API that lets in whoever has the token, and tells it."""

    async def listing(request: TopicRequest, context: Any) -> SubscriptionListResponse:
        metadata = dict(context.invocation_metadata())
        if metadata.get("authorization") != "Bearer the-gate's-own":
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you?")
        return SubscriptionListResponse(subscriptions=[request.name, "another"])

    handler = grpc.unary_unary_rpc_method_handler(
        listing,
        request_deserializer=TopicRequest.FromString,
        response_serializer=SubscriptionListResponse.SerializeToString,
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"http://127.0.0.1:{port}"
    await server.stop(None)


async def test_the_gate_asks_under_its_own_name(admin: str) -> None:
    asking = lists(admin={"url": admin, "token": "the-gate's-own"})
    assert await asking.of("/default/orders") == ["/default/orders", "another"]
    assert await asking.of("/default/others") == ["/default/others", "another"]
    await asking.close()


async def test_without_an_admin_api_it_cannot_be_told() -> None:
    with pytest.raises(LookupError, match="no `admin` is configured"):
        await lists().of("/default/orders")


async def test_a_refusal_is_an_error_and_no_empty_list(admin: str) -> None:
    asking = lists(admin={"url": admin})
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await asking.of("/default/orders")
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    await asking.close()
