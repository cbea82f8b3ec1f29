"""The gateway's own requests to the admin API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import copyfile
from typing import Any

import grpc.aio
import pytest
from tests.danube.proxy.test_tls import credentials
from tests.gateway.certificates import Authority

from sluicegate.config.models import BrokerTls
from sluicegate.net.renewal import Renewal
from sluicegate_danube.admin.client import METHOD, SERVICE
from sluicegate_danube.admin.topics_pb2 import SubscriptionListResponse, TopicRequest
from sluicegate_danube.config import DanubeConfig
from sluicegate_danube.subscriptions import SubscriptionLists


def lists(**entry: Any) -> SubscriptionLists:
    base = {"name": "d", "system": "danube", "bootstrap": ["b:6650"], "listen": {"port": 1}}
    return SubscriptionLists(DanubeConfig.model_validate({**base, **entry}))


@asynccontextmanager
async def admin_api(tls: grpc.ServerCredentials | None = None) -> AsyncIterator[str]:
    """The URL of an admin API that admits any caller with the token."""

    async def listing(request: TopicRequest, context: Any) -> SubscriptionListResponse:
        metadata = dict(tuple(context.invocation_metadata()))
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
    here = "127.0.0.1:0"
    port = server.add_insecure_port(here) if tls is None else server.add_secure_port(here, tls)
    await server.start()
    yield f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
    await server.stop(None)


@pytest.fixture
async def admin() -> AsyncIterator[str]:
    async with admin_api() as url:
        yield url


async def test_the_token_goes_to_no_proxy(admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    asking = lists(admin={"url": admin, "token": "the-gate's-own"})
    assert await asking.of("/default/orders") == ["/default/orders", "another"]
    await asking.close()


async def test_the_gateway_lists_under_its_own_name(admin: str) -> None:
    asking = lists(admin={"url": admin, "token": "the-gate's-own"})
    assert await asking.of("/default/orders") == ["/default/orders", "another"]
    assert await asking.of("/default/others") == ["/default/others", "another"]
    await asking.close()


async def test_without_an_admin_api_subscriptions_are_unknown() -> None:
    with pytest.raises(LookupError, match="no `admin` is configured"):
        await lists().of("/default/orders")


async def test_a_refused_listing_is_an_error_and_not_an_empty_list(admin: str) -> None:
    asking = lists(admin={"url": admin})
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await asking.of("/default/orders")
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    await asking.close()


async def test_a_renewed_authority_is_trusted_from_the_next_request(tmp_path: Path) -> None:
    """gRPC's client reads files only once, when a channel is made."""
    right, wrong = Authority(tmp_path / "right", "right"), Authority(tmp_path / "wrong", "wrong")
    trusted = tmp_path / "trusted.pem"
    copyfile(wrong.ca, trusted)
    renewal = Renewal(BrokerTls(ca=str(trusted)))
    async with admin_api(credentials(*right.issue("admin", "127.0.0.1"))) as url:
        token = {"url": url, "token": "the-gate's-own"}
        asking = lists(admin=token, tls={"broker": {"ca": str(trusted)}})
        asking.renewals = lambda: renewal.context.renewals
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await asking.of("/default/orders")
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        copyfile(right.ca, trusted)
        renewal.look()
        assert await asking.of("/default/orders") == ["/default/orders", "another"]
        await asking.close()
