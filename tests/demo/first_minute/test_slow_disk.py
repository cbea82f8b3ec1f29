"""The queue that gives an embedded broker a bound."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable

import pytest

from sluicegate.demo.first_minute.slow_disk import SlowDisk
from sluicegate_kafka.demo.moved_node import MovedNode


def test_bytes_wait_for_all_that_came_before_at_its_speed() -> None:
    disk = SlowDisk()
    assert disk.written_at(1_000, now=5.0) == 5.0
    disk.bytes_per_second = 100.0
    assert disk.written_at(200, now=5.0) == 7.0
    assert disk.written_at(50, now=6.0) == 7.5
    assert disk.written_at(100, now=60.0) == 61.0


async def test_bytes_of_all_connections_pass_in_order_and_answers_can_be_changed() -> None:
    async def echo(reader: StreamReader, writer: StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data.upper())
        writer.close()

    ports: list[int] = []

    def rewriting(port: int) -> Callable[[bytes], bytes]:
        ports.append(port)
        return lambda data: data.replace(b"X", b"Y")

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as broker, SlowDisk() as disk:
        disk.bytes_per_second = 1e6
        there = await disk.front(f"127.0.0.1:{broker.sockets[0].getsockname()[1]}", rewriting)
        host, _, port = there.rpartition(":")
        for number in range(2):
            reader, writer = await asyncio.open_connection(host, int(port))
            for _ in range(100):
                writer.write(b"a" * 500 + b"x%d" % number)
            writer.write_eof()
            assert await reader.read(-1) == (b"A" * 500 + b"Y%d" % number) * 100
            writer.close()
            await writer.wait_closed()
    assert ports == [int(port)] * 2


def frame(body: bytes) -> bytes:
    """A response of Kafka."""
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_the_port_of_kafkas_node_is_replaced_wherever_the_bytes_are_cut(cut: int) -> None:
    host = b"\0\x09127.0.0.1"
    said = frame(b"1234" + host + (9_092).to_bytes(4, "big") + b"rest") + frame(b"other")
    expected = frame(b"1234" + host + (12_345).to_bytes(4, "big") + b"rest") + frame(b"other")
    node = MovedNode(9_092, 12_345)
    found = node.answer(said[:cut]) + node.answer(said[cut:])
    assert found == expected
