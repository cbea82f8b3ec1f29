"""An aiokafka producer while the gateway's certificate is renewed, and the gateway's own admin client."""

import asyncio
import ssl
from datetime import UTC, datetime
from pathlib import Path

import yaml
from aiokafka import AIOKafkaProducer
from aiokafka.conn import AIOKafkaConnection
from tests.gateway.certificates import Authority
from tests.gateway.handshakes import serial
from tests.gateway.lab import upstream
from tests.gateway.shown import accepted, renewed

from sluicegate.demo.ports import free_ports
from sluicegate.net.tls import TlsFiles
from sluicegate.processes.in_process import EmbeddedGateway
from sluicegate_kafka.cluster.login import login_options
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.demo.mock_cluster import mock_cluster


async def test_a_connected_producer_stays_and_new_clients_see_the_new_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    cert, key = authority.issue("gate", "127.0.0.1")
    own = free_ports(4)
    async with mock_cluster() as nodes:
        entry = {
            "name": "main",
            "system": "kafka",
            "bootstrap": list(nodes),
            "listen": {"host": "127.0.0.1", "port": own},
            "node_port_base": own + 1,
            "tls": {"client": {"cert": cert, "key": key}},
        }
        path = tmp_path / "gateway.yaml"
        path.write_text(yaml.safe_dump({"brokers": [entry], "state_dir": str(tmp_path / "state")}))
        async with (
            EmbeddedGateway.from_file(path) as gateway,
            AIOKafkaProducer(
                bootstrap_servers=f"127.0.0.1:{own}",
                security_protocol="SSL",
                ssl_context=ssl.create_default_context(cafile=authority.ca),
            ) as producer,
        ):
            await producer.send_and_wait("orders", b"before")
            connected = accepted(gateway)
            others = await renewed(gateway, authority, "gate")
            await producer.send_and_wait("orders", b"after")
            assert accepted(gateway) == connected + others


async def test_the_gates_own_login_uses_the_configured_name_and_the_newest_certificate(
    tmp_path: Path,
) -> None:
    """aiokafka is given one context for all of its connections, and knows only the host."""
    authority = Authority(tmp_path)
    cert, key = authority.issue("gate", "gate")
    identity = {"tls": {"ca": authority.ca, "cert": cert, "key": key, "server_name": "kafka.internal"}}
    entry = {"name": "k", "system": "kafka", "bootstrap": ["127.0.0.1:1"], "listen": {"port": 19092}}
    config = KafkaConfig.model_validate({**entry, "identity": identity})
    files = TlsFiles.of_entry(config)
    options = login_options(config, files.context_for)
    behind = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    behind.load_cert_chain(*authority.issue("broker", "kafka.internal"))
    behind.load_verify_locations(authority.ca)
    behind.verify_mode = ssl.CERT_REQUIRED
    shown: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        shown.append(int(writer.get_extra_info("peercert")["serialNumber"], 16))
        size = int.from_bytes(await reader.readexactly(4))
        correlation = (await reader.readexactly(size))[4:8]
        writer.write((10).to_bytes(4) + correlation + bytes(6))  # ApiVersions: no error, no APIs

    async with upstream(answer, ssl=behind) as port:
        for _ in range(2):
            connection = AIOKafkaConnection(
                "127.0.0.1",
                port,
                ssl_context=options["ssl_context"],
                security_protocol=options["security_protocol"],
            )
            await connection.connect()
            await connection.close()
            assert shown[-1] == serial(cert)
            authority.issue("gate", "gate")
            files.look(datetime.now(UTC))
    assert len(set(shown)) == 2
