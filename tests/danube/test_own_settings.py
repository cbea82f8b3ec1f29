"""What is read of a cluster's own limits, at the reference broker."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
import yaml

from sluicegate.model import Level
from sluicegate.model.own_limits import OwnSettings, OwnSettingsError
from sluicegate.net.tls import OwnTlsFiles
from sluicegate_danube.config import DanubeConfig
from sluicegate_danube.own_settings import namespace_settings
from sluicegate_danube.plugin import DanubeDriver
from sluicegate_danube.reference.broker_settings import Settings
from sluicegate_danube.reference.server import ReferenceBroker

POLICIES = {
    "max_producers_per_topic": 3,
    "max_subscriptions_per_topic": 0,
    "max_consumers_per_topic": 0,
    "max_consumers_per_subscription": 0,
    "max_publish_rate": 5,
    "max_subscription_dispatch_rate": 0,
    "max_message_size": 2048,
}
"""As Danube 0.15.1 tells of a namespace: always all of them."""


async def told(admin: dict[str, Any] | None) -> OwnSettings:
    entry = {"name": "d", "system": "danube", "bootstrap": ["b:6650"], "listen": {"port": 1}}
    config = DanubeConfig.model_validate(entry if admin is None else {**entry, "admin": admin})
    return await DanubeDriver().own_settings(config, OwnTlsFiles(config))


@pytest.fixture
async def broker() -> AsyncIterator[ReferenceBroker]:
    async with ReferenceBroker(Settings(namespace_policies={"default": POLICIES})) as running:
        running.create_topic("/plain/t")
        yield running


async def test_policies_of_namespaces_are_told(broker: ReferenceBroker) -> None:
    found = await told({"url": broker.urls[0]})
    assert found.gaps == ()
    assert {one.field: one.value for one in found.settings} == POLICIES
    assert {(one.level, one.name) for one in found.settings} == {(Level.NAMESPACE, "default")}
    idle = {one.field for one in found.settings if not one.is_enforced}
    assert idle == {"max_publish_rate", "max_subscription_dispatch_rate"}


async def test_a_namespace_that_is_refused_or_unreadable_is_a_gap() -> None:
    class Refusing(grpc.aio.ServerInterceptor):
        async def intercept_service(self, continuation: Any, details: Any) -> Any:
            if not details.method.endswith("GetNamespacePolicies"):
                return await continuation(details)

            async def refuse(_: Any, context: Any) -> None:
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not you")

            return grpc.unary_unary_rpc_method_handler(refuse)

    settings = Settings(namespace_policies={"default": POLICIES})
    async with ReferenceBroker(settings, interceptors=[Refusing()]) as broker:
        found = await told({"url": broker.urls[0]})
    assert found == OwnSettings((), ("namespace default: PERMISSION_DENIED: not you",))


async def test_an_api_that_is_not_there_is_an_error_with_a_remedy() -> None:
    with pytest.raises(OwnSettingsError) as no_admin:
        await told(None)
    assert "add 'admin:" in no_admin.value.remedy
    with pytest.raises(OwnSettingsError, match="UNAVAILABLE") as refused:
        await told({"url": "http://127.0.0.1:1"})
    assert "its address" in refused.value.remedy


def test_policies_of_other_versions_are_left_out() -> None:
    assert list(namespace_settings("a", {"max_topics": 5})) == []


async def test_what_is_imported_can_be_used_and_is_no_drift(broker: ReferenceBroker, tmp_path: Path) -> None:
    made = tmp_path / "made.yaml"
    code, printed = await sluicegate("import", "danube", "--admin", broker.urls[0], "-o", os.fspath(made))
    assert (code, printed) == (0, f"{made}: 7 converted, 0 not\n")
    [namespace] = yaml.safe_load(made.read_text())["policies"]["namespaces"]
    assert (namespace["name"], namespace["max_publish_rate"]) == ("default", "5/s")
    assert "# Danube only warns above it" in made.read_text()
    assert (await sluicegate("check", os.fspath(made)))[0] == 0
    code, printed = await sluicegate("drift", "-c", os.fspath(made))
    assert code == 0, printed
    assert printed.startswith("broker danube (danube): 1 looser, 6 equal\n")
    made.write_text(made.read_text().replace("max_message_size: 2KiB", "max_message_size: 4KiB"))
    code, printed = await sluicegate("drift", "-c", os.fspath(made))
    assert code == 1
    assert "stricter  max_message_size                      4KiB           2KiB" in printed


async def sluicegate(*arguments: str) -> tuple[int | None, str]:
    """Run a command in a process of its own, as gRPC's client has one event loop."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "sluicegate", *arguments, stdout=PIPE, stderr=STDOUT
    )
    printed, _ = await process.communicate()
    return process.returncode, printed.decode()
