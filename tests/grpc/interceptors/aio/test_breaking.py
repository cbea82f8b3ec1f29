"""Faults that policies inject: an interceptor cannot close a connection, so it gives the status of that."""

from datetime import UTC, datetime, timedelta

import grpc
import pytest
from grpc import aio
from tests.grpc.interceptors.aio.serving import serving
from tests.grpc.lab import create, send, settings, told

from sluicegate import chaos
from sluicegate.config.models import GatewayConfig
from sluicegate.embedded import PolicyEngine, ServiceConfig
from sluicegate.model import PolicyValue
from sluicegate.testing import RecordingSink


def engine_with(policies: dict[str, PolicyValue]) -> PolicyEngine:
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    config = GatewayConfig(brokers=(ServiceConfig(name="shop", system="service"),))
    return PolicyEngine(
        config, [settings(chaos_until=until, **policies)], plugins=[chaos], sink=RecordingSink()
    )


@pytest.mark.parametrize(
    ("policy", "code"),
    [("chaos_kill", grpc.StatusCode.UNAVAILABLE), ("chaos_corrupt", grpc.StatusCode.INTERNAL)],
)
async def test_a_publish_gets_the_status_that_its_client_would_report(
    policy: str, code: grpc.StatusCode
) -> None:
    async with serving(engine_with({policy: "100%"})) as served:
        await served.unary("Create", create("p"))
        with pytest.raises(aio.AioRpcError) as caught:
            await served.unary("Send", send(1))
        found = told(caught.value)
        assert found.code is code
        assert f"injected by {policy}" in found.text
        assert served.broker.sent == 0
