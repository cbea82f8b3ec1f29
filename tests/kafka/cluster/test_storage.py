"""Volumes as the brokers of a cluster report them, with a fake admin client."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

import sluicegate_kafka.cluster.admin
from sluicegate.broker import BrokerContext
from sluicegate_kafka.cluster.log_dirs import LogDir
from sluicegate_kafka.cluster.storage import ClusterVolumes
from sluicegate_kafka.config import KafkaConfig

ENTRY = {
    "name": "main",
    "system": "kafka",
    "listen": {"host": "127.0.0.1", "port": 9092},
    "bootstrap": ["127.0.0.1:19092"],
    "storage": {"source": "log_dirs", "interval": "100ms", "timeout": "20ms"},
}


@pytest.mark.seed("S4-015")
async def test_a_node_that_hangs_does_not_hide_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def node_ids() -> list[int]:
        return [1, 2]

    async def log_dirs(node: int) -> list[LogDir]:
        if node == 2:
            await asyncio.Event().wait()
        return [LogDir("/data", 100, 60, {})]

    @asynccontextmanager
    async def admin_client(_: Mapping[str, Any]) -> AsyncIterator[Any]:
        yield SimpleNamespace(node_ids=node_ids, log_dirs=log_dirs)

    monkeypatch.setattr(sluicegate_kafka.cluster.admin, "admin_client", admin_client)
    log = logging.getLogger("sluicegate.plugin.kafka")
    context = SimpleNamespace(wall_ms=lambda: 7, tls_for=None, log=log)
    cluster = ClusterVolumes(KafkaConfig.model_validate(ENTRY), cast("BrokerContext", context))
    found = await cluster.read()
    assert list(found) == ["1"]
    assert found["1"].volumes[0].consumed == 40
    assert "cannot read the log directories of broker 2: TimeoutError: no answer within 0.02 s" in caplog.text
