"""Two gateways with the example's file share its limit through a real Redis."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from benchmarks.harness.redis import RedisServer, why_no_redis
from click.testing import CliRunner
from tests.house.test_documents import ROOT
from tests.real.needs import need
from tests.waiting import LONG_S

from sluicegate.api import EmbeddedGateway
from sluicegate.cli import main
from sluicegate.demo.ports import free_ports
from sluicegate_kafka.demo.mock_cluster import mock_cluster

EXAMPLE = (ROOT / "examples/fleet.yaml").read_text()
TOPIC = "orders.eu"


def _file(path: Path, gateway: str, broker: str, redis: str) -> int:
    """Write the example's file for one gateway; return its port."""
    port = free_ports(8)
    text = EXAMPLE
    for written, here in {
        "127.0.0.1:9092": broker,
        "port: 19092": f"port: {port}",
        "node_port_base: 19100": f"node_port_base: {port + 1}",
        "redis://127.0.0.1:6379": redis,
        "gateway: one": f"gateway: {gateway}\n  timeout: 50ms",
    }.items():
        assert written in text
        text = text.replace(written, here)
    path.write_text(text)
    return port


async def test_two_gateways_are_members_and_use_one_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(why_no_redis())
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka")
    async with AsyncExitStack() as running:
        server = RedisServer(tmp_path / "redis")
        await asyncio.to_thread(server.start)
        running.callback(server.stop)
        [broker] = await running.enter_async_context(mock_cluster())
        for name in ("one", "two"):
            file = tmp_path / f"{name}.yaml"
            port = _file(file, name, broker, server.url)
            await running.enter_async_context(EmbeddedGateway.from_file(file))
            producer = await running.enter_async_context(
                AIOKafkaProducer(bootstrap_servers=f"127.0.0.1:{port}")
            )
            await producer.send_and_wait(TOPIC, b"hello")
        command = ["budgets", "status", "-c", str(tmp_path / "two.yaml"), "--json"]
        members: list[dict[str, object]] = []
        async with asyncio.timeout(LONG_S):  # on a busy machine a gateway may lose the store for a while
            while [each["gateway"] for each in members] != ["one", "two"]:
                shown = await asyncio.to_thread(CliRunner().invoke, main, command)
                report = json.loads(shown.stdout)
                members = report["members"]
    assert len({each["policies"] for each in members}) == 1
    assert not any(each["has_other_policies"] or each["name_is_taken"] for each in members)
    rates = {each["name"]: (each["rate"], each["burst"]) for each in report["limits"]}
    assert rates == {f"main|{TOPIC}|max_publish_rate|m": (200, 200)}
