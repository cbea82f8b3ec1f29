"""Pulsar's own client in front of whose gate there is no broker yet, and then none for a while."""

import asyncio
from pathlib import Path

import pulsar
import yaml
from tests.gateway.lab import closed_port
from tests.waiting import LONG_S

from sluicegate.demo.ports import free_ports
from sluicegate.processes.in_process import EmbeddedGateway
from sluicegate_pulsar.reference import ReferenceBroker


def _file(directory: Path, port: int) -> Path:
    entry = {
        "name": "main",
        "system": "pulsar",
        "bootstrap": [f"127.0.0.1:{port}"],
        "listen": {"host": "127.0.0.1", "port": free_ports(3)},
    }
    path = directory / "gateway.yaml"
    path.write_text(yaml.safe_dump({"brokers": [entry], "state_dir": str(directory / "state")}))
    return path


async def turned_away(gateway: EmbeddedGateway, more_than: int = 0) -> int:
    """How many clients found no broker, once there are more than so many."""
    while (count := gateway.snapshot()[0]["counters"].get("upstream_unreachable", 0)) <= more_than:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return int(count)


async def test_clients_connect_once_an_absent_broker_is_up(tmp_path: Path) -> None:
    port = closed_port()
    async with EmbeddedGateway.from_file(_file(tmp_path, port)) as gateway:
        host, own = gateway.address()
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        client = pulsar.Client(f"pulsar://{host}:{own}", operation_timeout_seconds=LONG_S, logger=logger)
        creating = asyncio.ensure_future(
            asyncio.to_thread(client.create_producer, "t", send_timeout_millis=LONG_S * 1000)
        )
        count = await turned_away(gateway)
        assert gateway.snapshot()[0]["gauges"]["broker_up"] == 0
        async with ReferenceBroker(port=port):
            producer = await creating
            await asyncio.to_thread(producer.send, b"early")
        sending = asyncio.ensure_future(asyncio.to_thread(producer.send, b"meanwhile"))
        await turned_away(gateway, count)
        async with ReferenceBroker(port=port):
            await sending
        await asyncio.to_thread(client.close)
