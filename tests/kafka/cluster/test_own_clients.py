"""Where the gateway's own Kafka clients connect, with its login, whatever addresses brokers advertise."""

import asyncio
import logging
import struct
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from tests.gateway.lab import upstream

from sluicegate.config.tls import context_for_broker
from sluicegate_kafka.cluster.admin import Admin
from sluicegate_kafka.cluster.login import login_options
from sluicegate_kafka.cluster.own_clients import own_client
from sluicegate_kafka.config import KafkaConfig

_METADATA, _API_VERSIONS = 3, 18


class Broker:
    """Answers ApiVersions and Metadata, and names one node."""

    def __init__(self) -> None:
        self.node = ("", 0)
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                api, _, number = struct.unpack_from(">hhi", frame)
                body = struct.pack(">i", number) + self._answer(api)
                writer.write(struct.pack(">i", len(body)) + body)
        except asyncio.IncompleteReadError:
            writer.close()

    def _answer(self, api: int) -> bytes:
        if api == _API_VERSIONS:
            known = [(_API_VERSIONS, 0, 0), (_METADATA, 0, 0)]
            return struct.pack(">hi", 0, len(known)) + b"".join(struct.pack(">hhh", *each) for each in known)
        assert api == _METADATA
        host, port = self.node
        return struct.pack(">iih", 1, 7, len(host)) + host.encode() + struct.pack(">ii", port, 0)


async def is_reached(make: Callable[..., Any], broker: int, listen: int = 1, **entry: Any) -> bool:
    """Whether a client of this kind connects to node 7 that the broker at a port of this machine names."""
    given = {"name": "main", "system": "kafka", "bootstrap": [f"127.0.0.1:{broker}"]} | entry
    config = KafkaConfig.model_validate(given | {"listen": {"host": "127.0.0.1", "port": listen}})
    made = own_client(make, login_options(config, context_for_broker))
    client = made.client if hasattr(made, "client") else made._client
    await client.bootstrap()
    try:
        return bool(await client.ready(7))
    finally:
        await (made.close if make is Admin else made.stop)()


@pytest.mark.parametrize("make", [Admin, AIOKafkaConsumer, AIOKafkaProducer])
async def test_no_client_connects_to_a_broker_that_known_brokers_lacks(
    make: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    first, other = Broker(), Broker()
    async with upstream(first.serve) as port, upstream(other.serve) as stray:
        first.node = ("127.0.0.1", stray)
        assert not await is_reached(make, port, known_brokers=["broker-*:9092"])
        assert not await is_reached(make, port, known_brokers=["broker-*:9092"])
        assert (first.connections, other.connections) == (2, 0)
        told = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
        assert len([text for text in told if f"127.0.0.1:{stray}: known_brokers" in text]) == 1
        assert await is_reached(make, port, known_brokers=["127.0.0.1:*"])
        assert await is_reached(make, port)
        assert other.connections == 2


@pytest.mark.parametrize("make", [Admin, AIOKafkaConsumer, AIOKafkaProducer])
async def test_no_client_connects_to_link_local_addresses(
    make: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker()
    async with upstream(broker.serve) as port:
        broker.node = ("169.254.0.1", port)
        assert not await is_reached(make, port)
    assert f"169.254.0.1:{port}: it is a link-local address" in caplog.text


async def test_no_client_connects_to_the_gateway_itself() -> None:
    broker, gateway = Broker(), Broker()
    async with upstream(broker.serve) as port, upstream(gateway.serve) as own:
        broker.node = ("127.0.0.1", own)
        assert not await is_reached(Admin, port, listen=own)
        assert gateway.connections == 0


async def test_a_login_with_brokers_of_its_own_may_have_them_on_this_machine() -> None:
    broker, other = Broker(), Broker()
    async with upstream(broker.serve) as port, upstream(other.serve) as elsewhere:
        broker.node = ("127.0.0.1", elsewhere)
        identity = {"username": None, "bootstrap": [f"127.0.0.1:{port}"]}
        assert await is_reached(Admin, port, bootstrap=["192.0.2.1:9092"], identity=identity)
