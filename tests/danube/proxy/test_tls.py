"""TLS on either side, with ALPN, and client certificates."""

from pathlib import Path

import grpc.aio
import pytest
from danube import DanubeClientBuilder
from tests.danube.support.clients import consuming, danube_client, producing
from tests.danube.support.gates import gate, on_topic
from tests.gateway.certificates import Authority

from sluicegate_danube.reference import ReferenceBroker


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def credentials(cert: str, key: str) -> grpc.ServerCredentials:
    return grpc.ssl_server_credentials([(Path(key).read_bytes(), Path(cert).read_bytes())])


async def test_clients_and_brokers_speak_tls(authority: Authority, topic: str, tmp_path: Path) -> None:
    cert, key = authority.issue("both", "127.0.0.1")
    tls = {"client": {"cert": cert, "key": key}, "broker": {"ca": authority.ca}}
    async with (
        ReferenceBroker(tls=credentials(cert, key)) as broker,
        gate(
            tmp_path,
            broker.addresses,
            on_topic(topic, max_subscriptions_per_topic=1),
            tls=tls,
            admin={"url": broker.urls[0]},
        ) as through,
        danube_client(through.url, ca=authority.ca) as client,
        producing(client, topic, reliable=True) as producer,
        consuming(client, topic) as consumer,
    ):
        await producer.send(b"sealed")
        assert await consumer.take(1) == [b"sealed"]
        assert through.state(topic).subscriptions_known
        assert {known.connect_url for known in client.connection_manager._connections} == {through.url}


async def test_clients_without_a_required_certificate_are_refused(
    authority: Authority, reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    cert, key = authority.issue("gate", "127.0.0.1")
    own_cert, own_key = authority.issue("client", "client.example")
    tls = {"client": {"cert": cert, "key": key, "client_ca": authority.ca}}
    async with gate(tmp_path, reference.addresses, tls=tls) as through:
        async with danube_client(through.url, ca=authority.ca) as nobody:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                async with producing(nobody, topic, max_retries=1):
                    raise AssertionError("was let in")
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        client = (
            await DanubeClientBuilder()
            .service_url(through.url)
            .with_mtls(authority.ca, own_cert, own_key)
            .build()
        )
        async with producing(client, topic) as producer:
            await producer.send(b"known")
        for connection in client.connection_manager._connections.values():
            await connection.channel.close()
