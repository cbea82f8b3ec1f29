"""Pulsar's own producer while the gateway's certificate is renewed."""

import asyncio
from pathlib import Path

import pulsar
import yaml
from tests.gateway.certificates import Authority
from tests.gateway.shown import accepted, renewed
from tests.waiting import LONG_S

from sluicegate.demo.ports import free_ports
from sluicegate.processes.in_process import EmbeddedGateway
from sluicegate_pulsar.reference import ReferenceBroker


async def test_a_connected_producer_stays_and_new_clients_see_the_new_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    cert, key = authority.issue("gate", "127.0.0.1")
    async with ReferenceBroker() as broker:
        entry = {
            "name": "main",
            "system": "pulsar",
            "bootstrap": [broker.service_url.removeprefix("pulsar://")],
            "listen": {"host": "127.0.0.1", "port": free_ports(3)},
            "tls": {"client": {"cert": cert, "key": key}},
        }
        path = tmp_path / "gateway.yaml"
        path.write_text(yaml.safe_dump({"brokers": [entry], "state_dir": str(tmp_path / "state")}))
        async with EmbeddedGateway.from_file(path) as gateway:
            host, own = gateway.address()
            client = pulsar.Client(
                f"pulsar+ssl://{host}:{own}",
                operation_timeout_seconds=LONG_S,
                tls_trust_certs_file_path=authority.ca,
                tls_validate_hostname=True,
                logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
            )
            producer = await asyncio.to_thread(client.create_producer, "t")
            await asyncio.to_thread(producer.send, b"before")
            connected = accepted(gateway)
            others = await renewed(gateway, authority, "gate")
            await asyncio.to_thread(producer.send, b"after")
            assert accepted(gateway) == connected + others
            await asyncio.to_thread(client.close)
