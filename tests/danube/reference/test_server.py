"""The reference broker as a server: TLS, ports, its own process, and the admin API."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc.aio
import pytest
from danube import DanubeClient
from tests.danube.support.clients import consuming, danube_client, producing
from tests.gateway.certificates import Authority
from tests.waiting import LONG_S

from sluicegate_danube.admin.client import list_subscriptions
from sluicegate_danube.reference import LABEL, ReferenceBroker

POLICIES = """
state_dir: {state}
brokers:
  - name: reference
    system: danube
    listen: {{port: 6650}}
    bootstrap: [127.0.0.1:6651]
policies:
  broker: {{max_message_size: 100B, max_producers_per_topic: 1}}
"""


async def test_subscriptions_are_listed(reference: ReferenceBroker, client: DanubeClient, topic: str) -> None:
    async with grpc.aio.insecure_channel(reference.addresses[0]) as channel:
        async with producing(client, topic), consuming(client, topic, "b"), consuming(client, topic, "a"):
            assert await list_subscriptions(channel, topic) == ["a", "b"]
        assert await list_subscriptions(channel, "/default/none") == []


def credentials(authority: Authority) -> grpc.ServerCredentials:
    certificate, key = (Path(name).read_bytes() for name in authority.issue("broker", "127.0.0.1"))
    return grpc.ssl_server_credentials([(key, certificate)])


async def test_tls(tmp_path: Path, topic: str) -> None:
    authority = Authority(tmp_path)
    async with ReferenceBroker(tls=credentials(authority)) as broker:
        assert broker.urls == [f"https://{broker.addresses[0]}"]
        async with (
            danube_client(broker.urls[0], authority.ca) as client,
            producing(client, topic) as producer,
            consuming(client, topic) as consumer,
        ):
            await producer.send(b"secret")
            assert await consumer.take(1) == [b"secret"]


async def test_interceptors_see_each_call(topic: str) -> None:
    seen: list[str] = []

    class Seeing(grpc.aio.ServerInterceptor):
        async def intercept_service(self, continuation, details):  # type: ignore[no-untyped-def]
            seen.append(details.method)
            return await continuation(details)

    async with (
        ReferenceBroker(interceptors=[Seeing()]) as broker,
        danube_client(broker.urls[0]) as client,
        producing(client, topic) as producer,
    ):
        await producer.send(b"x")
    assert "/danube.ProducerService/SendMessage" in seen


async def test_a_port_in_use_is_reported(reference: ReferenceBroker) -> None:
    port = int(reference.addresses[0].rpartition(":")[2])
    with pytest.raises(OSError, match=str(port)):
        await ReferenceBroker(port=port).__aenter__()


@contextmanager
def running(*arguments: str) -> Iterator[list[str]]:
    """URLs of a reference broker that runs as a process of its own; it must end well."""
    command = [sys.executable, "-m", "sluicegate_danube.reference", "--port", "0", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONSAFEPATH": "1"}
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith(f"{LABEL}, in memory, no Danube: http://127.0.0.1:")
            yield [word for word in line.split() if word.startswith("http")]
            process.send_signal(signal.SIGTERM)
            assert process.wait(LONG_S) == 0
        finally:
            process.kill()


def test_runs_as_a_separate_process() -> None:
    with running("--brokers", "2") as urls:
        assert len(urls) == 2
        for url in urls:
            with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))):
                pass


async def test_runs_with_policies_of_its_own(tmp_path: Path, topic: str) -> None:
    file = tmp_path / "sluicegate.yaml"
    file.write_text(POLICIES.format(state=tmp_path))
    with running("--policies", str(file)) as (url,):
        async with danube_client(url) as client, producing(client, topic) as producer:
            await producer.send(bytes(100))
            with pytest.raises(grpc.aio.AioRpcError, match="101") as refused:
                await producer.send(bytes(101))
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                async with producing(client, topic, "second", max_retries=1):
                    pass
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_reports_invalid_policies(tmp_path: Path) -> None:
    file = tmp_path / "sluicegate.yaml"
    file.write_text("brokers: 5\n")
    command = [sys.executable, "-m", "sluicegate_danube.reference", "--policies", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONG_S)
    assert done.returncode == 2
    assert "sluicegate.yaml" in done.stderr
    assert "Traceback" not in done.stderr


def test_reports_that_it_cannot_listen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "sluicegate_danube.reference", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONG_S)
    assert done.returncode == 2
    assert "cannot listen: " in done.stderr
