"""Clients that take little CPU: they keep so many small messages on their way, and count the answers.

Run as a program with what they send (a key of `_MESSAGES`), the address, how many connections, how many
messages on their way over each at most, for how many seconds, how many a second all connections send
together (0 for as many as are answered), and what the clients' names begin with. It prints as JSON how many
answers came in how many seconds (`messages`, `seconds`), with those of the warm-up (`sent`), and its CPU for
these.
"""

import asyncio
import gzip
import json
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import cycle, islice

import uvloop

from benchmarks.harness import pulsar_bytes
from benchmarks.harness.fleet_clients import attach
from benchmarks.harness.kafka_long_bytes import batch, produce, record

_VALUE_BYTES = 100
TOPICS = {"kafka": "orders", "pulsar": "persistent://public/default/orders"}
READ_HEADER = "trace-id"
"""Of all records in compressed batches."""
_RECORDS = 500
"""Of a compressed batch."""
_CODEC_AT, _GZIP = 22, 1
"""Where a batch says how it is compressed."""
_BURST = 5
"""Messages that a paced connection sends at once, at most."""
_SEQUENCES = 20_000
"""Pulsar's sequence ids begin again then: no client has so many on their way."""
_WARM_UP = 0.2
"""Of the seconds, before those that count."""


class _Count(asyncio.Protocol):
    """One connection that counts the answers to its messages.

    :param messages: gives so many messages.
    :param in_flight: how many are on their way at most.
    """

    def __init__(self, messages: Callable[[int], bytes], in_flight: int) -> None:
        self._messages = messages
        self._in_flight = in_flight
        self._received = b""
        self._is_paced = False
        self._sent = 0
        self.burst = min(_BURST, in_flight)
        """Messages that are sent at once while they are paced."""
        self.answers = 0

    def open(self, writer: asyncio.StreamWriter) -> None:
        """Take a connection over."""
        self._writer = writer  # whose end would close it
        writer.transport.set_protocol(self)

    def flood(self) -> None:
        """Keep `in_flight` messages on their way."""
        self._send(self._in_flight)

    def pace(self, period_s: float, first_s: float) -> None:
        """Send a few messages every period.

        :param first_s: when to begin, by the loop's clock. The times of all that follow depend on it alone.
        """
        self._is_paced = True
        if self._sent - self.answers + self.burst <= self._in_flight:
            self._send(self.burst)
        due_s = first_s + period_s
        asyncio.get_running_loop().call_at(due_s, self.pace, period_s, due_s)

    def _send(self, count: int) -> None:
        self._sent += count
        self._writer.write(self._messages(count))

    def data_received(self, data: bytes) -> None:
        """Count complete answers, and send as many messages unless these are paced."""
        received, at, count = self._received + data, 0, 0
        while at + 4 <= len(received):
            end = at + 4 + struct.unpack_from(">I", received, at)[0]
            if end > len(received):
                break
            at, count = end, count + 1
        self._received = received[at:]
        self.answers += count
        if count and not self._is_paced:
            self._send(count)

    def connection_lost(self, error: Exception | None) -> None:
        """Nothing: the sum tells too few answers."""


def _kafka(name: str) -> Callable[[int], bytes]:
    request = produce({TOPICS["kafka"]: {0: batch(record(_VALUE_BYTES), 1)}}, name)
    return lambda count: request * count


def _kafka_gzip(name: str) -> Callable[[int], bytes]:
    """Requests of one compressed batch: a gateway that reads its records has much more to do than others."""
    records = gzip.compress(record(_VALUE_BYTES, {READ_HEADER: bytes(32)}) * _RECORDS, mtime=0)
    packed = bytearray(batch(records, _RECORDS))
    packed[_CODEC_AT] = _GZIP
    request = produce({TOPICS["kafka"]: {0: bytes(packed)}}, name)
    return lambda count: request * count


def _pulsar(name: str) -> Callable[[int], bytes]:
    frames = cycle(pulsar_bytes.send(n, bytes(_VALUE_BYTES), producer_name=name) for n in range(_SEQUENCES))
    return lambda count: b"".join(islice(frames, count))


_MESSAGES: Mapping[str, Callable[[str], Callable[[int], bytes]]] = {
    "kafka": _kafka,
    "kafka-gzip": _kafka_gzip,
    "pulsar": _pulsar,
}


async def _connected(kind: str, address: str, name: str, *, in_flight: int) -> _Count:
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    if kind == "pulsar":
        await attach(reader, writer, TOPICS[kind], name)
    count = _Count(_MESSAGES[kind](name), in_flight)
    count.open(writer)
    return count


async def _main(
    connect: Callable[[str], Awaitable[_Count]], names: list[str], seconds: float, per_s: float
) -> None:
    idle_s = time.process_time()
    counts = await asyncio.gather(*map(connect, names))
    loop = asyncio.get_running_loop()
    if per_s:
        period_s = sum(each.burst for each in counts) / per_s
        for number, each in enumerate(counts):  # one after the other, so that the load is even
            first_s = loop.time() + period_s * number / len(counts)
            loop.call_at(first_s, each.pace, period_s, first_s)
    else:
        for each in counts:
            each.flood()

    def answers() -> int:
        return sum(each.answers for each in counts)

    await asyncio.sleep(_WARM_UP * seconds)
    before, began_s = answers(), loop.time()
    await asyncio.sleep(seconds)
    sent, took_s = answers(), loop.time() - began_s
    cpu_s = time.process_time() - idle_s
    print(json.dumps({"messages": sent - before, "seconds": took_s, "sent": sent, "cpu_s": cpu_s}))


if __name__ == "__main__":
    _kind, _address, _connections, _in_flight, _seconds, _per_s, _name = sys.argv[1:]
    _connect = partial(_connected, _kind, _address, in_flight=int(_in_flight))
    _names = [f"{_name}-{number}" for number in range(int(_connections))]
    uvloop.run(_main(_connect, _names, float(_seconds), float(_per_s)))
