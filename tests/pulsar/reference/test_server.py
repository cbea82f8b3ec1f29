"""Sockets, timers and the command line of the reference broker."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys

import pytest
import uvloop
from tests.pulsar.reference.running import Running, client
from tests.waiting import LONG_S

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.frames import command_frame, parse_command
from sluicegate_pulsar.reference import LABEL, ReferenceBroker, server

CONNECT = command_frame(
    pb.BaseCommand(type=pb.BaseCommand.CONNECT, connect=pb.Connect(client_version="test"))
)


def address(url: str) -> tuple[str, int]:
    host, _, port = url.rpartition("//")[2].rpartition(":")
    return host, int(port)


async def test_malformed_input_ends_only_that_connection(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=server.__name__)
    async with ReferenceBroker() as broker:
        host, port = address(broker.service_url)
        reader, writer = await asyncio.open_connection(host, port)
        other, other_writer = await asyncio.open_connection(host, port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await reader.read() == b""
        other_writer.write(CONNECT)
        size = await other.readexactly(4)
        frame = size + await other.readexactly(int.from_bytes(size, "big"))
        assert parse_command(frame, 0, len(frame)).connected.server_version == LABEL
        writer.close()
        other_writer.close()
    assert "closes a connection" in caplog.text


async def test_pings_a_silent_client_and_then_closes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_KEEP_ALIVE_S", 0.05)
    async with ReferenceBroker() as broker:
        reader, writer = await asyncio.open_connection(*address(broker.service_url))
        size = int.from_bytes(await reader.readexactly(4), "big")
        frame = size.to_bytes(4, "big") + await reader.readexactly(size)
        assert parse_command(frame, 0, len(frame)).type == pb.BaseCommand.PING
        with contextlib.suppress(ConnectionResetError):  # an orderly end will do, too
            assert await asyncio.wait_for(reader.read(), LONG_S) == b""
        assert broker.principals == []
        writer.close()


async def test_a_port_in_use_is_reported() -> None:
    async with ReferenceBroker() as broker:
        (_, port), (_, admin_port) = address(broker.service_url), address(broker.admin_url)
        for second in (ReferenceBroker(port=port), ReferenceBroker(admin_port=admin_port)):
            with pytest.raises(OSError, match="ddress already in use"):
                await second.__aenter__()


def test_runs_on_the_loop_of_the_product() -> None:
    async def connect() -> None:
        async with ReferenceBroker() as broker:
            reader, writer = await asyncio.open_connection(*address(broker.service_url))
            writer.write(CONNECT)
            assert len(await reader.readexactly(4)) == 4
            writer.close()

    uvloop.run(asyncio.wait_for(connect(), LONG_S))


def test_stops_with_clients_attached(own_broker: Running) -> None:
    with client(own_broker) as made:
        made.subscribe("orders", "sub")
        assert own_broker.call(lambda: own_broker.reference.principals) == [""]


def test_runs_as_a_separate_process() -> None:
    command = [sys.executable, "-m", "sluicegate_pulsar.reference", "--port", "0", "--admin-port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONSAFEPATH": "1"}
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith(f"{LABEL}, in memory, not Pulsar: pulsar://127.0.0.1:")
            with socket.create_connection(address(line.split()[-2])):
                process.send_signal(signal.SIGTERM)
                assert process.wait(LONG_S) == 0
        finally:
            process.kill()


def test_reports_that_it_cannot_listen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "sluicegate_pulsar.reference", "--port", port, "--admin-port", "0"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONG_S)
    assert done.returncode == 2
    assert done.stderr.startswith("cannot listen: ")
