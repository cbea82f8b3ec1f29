"""Danube's own clients while the gateway's certificate is renewed."""

from pathlib import Path

from tests.danube.support.clients import consuming, danube_client, producing
from tests.danube.support.gates import gate
from tests.gateway.certificates import Authority
from tests.gateway.shown import accepted, renewed

from sluicegate_danube.reference import ReferenceBroker


async def test_connected_clients_stay_and_new_ones_see_the_new_certificate(
    topic: str, reference: ReferenceBroker, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("gate", "127.0.0.1")
    tls = {"client": {"cert": cert, "key": key}}
    async with (
        gate(tmp_path, reference.addresses, tls=tls) as through,
        danube_client(through.url, ca=authority.ca) as client,
        producing(client, topic) as producer,
        consuming(client, topic) as consumer,
    ):
        await producer.send(b"before")
        assert await consumer.take(1) == [b"before"]
        connected = accepted(through.gateway)
        others = await renewed(through.gateway, authority, "gate")
        await producer.send(b"after")
        assert await consumer.take(1) == [b"after"]
        assert accepted(through.gateway) == connected + others
