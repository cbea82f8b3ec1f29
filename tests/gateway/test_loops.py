"""A gateway whose broker's address is its own: it does not connect to itself."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.waiting import until_so

from sluicegate.demo.ports import free_ports
from sluicegate.processes.in_process import EmbeddedGateway

OWN = "it is a listener of this gateway itself; brokers must advertise addresses of their own"


def file(directory: Path, system: str, **options: Any) -> tuple[Path, int]:
    """A gateway's file, and its port."""
    port = free_ports(4)
    entry = {"name": "main", "system": system, "listen": {"host": "127.0.0.1", "port": port}}
    entry |= {"bootstrap": [f"127.1:{port}"]} | options  # a spelling that only a look-up resolves
    path = directory / "gateway.yaml"
    path.write_text(yaml.safe_dump({"brokers": [entry], "state_dir": str(directory / "state")}))
    return path, port


@pytest.mark.parametrize("system", ["kafka", "pulsar", "danube"])
async def test_a_gateway_that_is_its_own_broker_says_so(
    system: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, port = file(tmp_path, system)
    async with EmbeddedGateway.from_file(path) as gateway:
        reason = f"127.1:{port}: {OWN}"
        await until_so(lambda: gateway.snapshot()[0]["reachability"]["reason"] == reason)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\0\0\0\x14\0\x12\0\0\0\0\0\0\0\x0asluicegate")
        await reader.read()
        writer.close()
        assert gateway.snapshot()[0]["counters"]["connections_accepted"] == 1
        assert f"cannot reach broker at {reason}" in caplog.text


async def test_a_node_at_a_listener_of_the_gateway_is_not_connected_to(tmp_path: Path) -> None:
    path, port = file(tmp_path, "kafka")
    async with EmbeddedGateway.from_file(path) as gateway:
        (worker,) = gateway._workers.values()
        nodes = worker._front._nodes  # type: ignore[attr-defined]
        nodes.listed({0: ("0x7f.1", port), 1: ("0x7f.1", port + 2)})
        await until_so(lambda: len(worker.listeners.addresses) == 3)
        for node in (0, 1):
            reader, writer = await asyncio.open_connection("127.0.0.1", port + 1 + node)
            writer.write(b"\0\0\0\x14\0\x12\0\0\0\0\0\0\0\x0asluicegate")
            assert await reader.read() == b""
            writer.close()
        snapshot = gateway.snapshot()[0]
        assert snapshot["counters"]["connections_accepted"] == 2
        await until_so(lambda: gateway.snapshot()[0]["reachability"]["reason"].count(OWN) == 3)
