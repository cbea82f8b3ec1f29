"""Stock clients whose broker does not exist yet, and later is another one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import KafkaError, Message, Producer
from tests.gateway.lab import closed_port, upstream
from tests.waiting import LONG_S

from sluicegate.demo.ports import free_ports
from sluicegate.processes.in_process import EmbeddedGateway
from sluicegate_kafka.demo.mock_cluster import mock_cluster


@asynccontextmanager
async def broker(port: int) -> AsyncIterator[None]:
    """A cluster of one node, bootstrapped at a port that is its own only while it runs."""
    async with mock_cluster() as (node,):
        host, _, own = node.rpartition(":")

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            from_node, to_node = await asyncio.open_connection(host, int(own))
            await asyncio.gather(_pipe(reader, to_node), _pipe(from_node, writer))

        async with upstream(forward, port=port):
            yield


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def gate(directory: Path, port: int) -> AsyncIterator[EmbeddedGateway]:
    """A gateway in front of a bootstrap port."""
    own = free_ports(4)
    entry = {
        "name": "main",
        "system": "kafka",
        "bootstrap": [f"127.0.0.1:{port}"],
        "listen": {"host": "127.0.0.1", "port": own},
        "node_port_base": own + 1,
    }
    path = directory / "gateway.yaml"
    path.write_text(yaml.safe_dump({"brokers": [entry], "state_dir": str(directory / "state")}))
    async with EmbeddedGateway.from_file(path) as gateway:
        yield gateway


async def turned_away(gateway: EmbeddedGateway, more_than: int = 0) -> int:
    """How many clients found no broker, once there are more than so many."""
    while (count := gateway.snapshot()[0]["counters"].get("upstream_unreachable", 0)) <= more_than:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return int(count)


async def test_a_producer_delivers_once_its_broker_starts_and_once_it_restarts(tmp_path: Path) -> None:
    port = closed_port()
    told: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        told.append(error)

    async with gate(tmp_path, port) as gateway:
        host, own = gateway.address()
        producer = Producer({"bootstrap.servers": f"{host}:{own}", "log_level": 0})
        producer.produce("orders", b"early", on_delivery=delivered)
        count = await turned_away(gateway)
        assert gateway.snapshot()[0]["gauges"]["broker_up"] == 0
        async with broker(port):
            assert await asyncio.to_thread(producer.flush, LONG_S) == 0
        producer.produce("orders", b"meanwhile", on_delivery=delivered)
        await turned_away(gateway, count)
        async with broker(port):
            assert await asyncio.to_thread(producer.flush, LONG_S) == 0
            assert gateway.snapshot()[0]["counters"].get("session_faults", 0) == 0
    assert told == [None, None]


async def test_aiokafka_gets_an_error_at_once_and_starts_when_the_broker_is_there(tmp_path: Path) -> None:
    port = closed_port()
    async with gate(tmp_path, port) as gateway:
        host, own = gateway.address()
        options = {"bootstrap_servers": f"{host}:{own}", "request_timeout_ms": LONG_S * 1000}
        producer = AIOKafkaProducer(**options)
        with pytest.raises(KafkaConnectionError):
            await producer.start()
        await producer.stop()
        async with broker(port), AIOKafkaProducer(**options) as again:
            await again.send_and_wait("orders", b"here it is")
