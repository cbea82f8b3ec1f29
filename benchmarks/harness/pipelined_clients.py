"""Clients that take little CPU: they keep so many small messages on their way, and count the answers.

Run as a program with `kafka` or `pulsar`, the address, how many connections, how many messages on their way
over each, for how many seconds, and what the clients' names begin with. It prints as JSON how many answers
came in how many seconds (`messages`, `seconds`), with those of the warm-up (`sent`), and its CPU for these.
"""

import asyncio
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
_TOPICS = {"kafka": "orders", "pulsar": "persistent://public/default/orders"}
_SEQUENCES = 20_000
"""Pulsar's sequence ids begin again then: no client has so many on their way."""
_WARM_UP = 0.2
"""Of the seconds, before those that count."""


class _Count(asyncio.Protocol):
    """One connection that sends as many messages as it has got answers.

    :param messages: gives so many messages.
    """

    def __init__(self, messages: Callable[[int], bytes]) -> None:
        self._messages = messages
        self._received = b""
        self.answers = 0

    def begin(self, writer: asyncio.StreamWriter, in_flight: int) -> None:
        """Take a connection over, and send the first messages."""
        self._writer = writer  # whose end would close it
        writer.transport.set_protocol(self)
        writer.write(self._messages(in_flight))

    def data_received(self, data: bytes) -> None:
        """Count complete answers, and send as many messages."""
        received, at, count = self._received + data, 0, 0
        while at + 4 <= len(received):
            end = at + 4 + struct.unpack_from(">I", received, at)[0]
            if end > len(received):
                break
            at, count = end, count + 1
        self._received = received[at:]
        self.answers += count
        if count:
            self._writer.write(self._messages(count))

    def connection_lost(self, error: Exception | None) -> None:
        """Nothing: the sum tells too few answers."""


def _kafka(name: str) -> Callable[[int], bytes]:
    request = produce({_TOPICS["kafka"]: {0: batch(record(_VALUE_BYTES), 1)}}, name)
    return lambda count: request * count


def _pulsar(name: str) -> Callable[[int], bytes]:
    frames = cycle(pulsar_bytes.send(n, bytes(_VALUE_BYTES), producer_name=name) for n in range(_SEQUENCES))
    return lambda count: b"".join(islice(frames, count))


_MESSAGES: Mapping[str, Callable[[str], Callable[[int], bytes]]] = {"kafka": _kafka, "pulsar": _pulsar}


async def _connected(system: str, address: str, name: str, *, in_flight: int) -> _Count:
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    if system == "pulsar":
        await attach(reader, writer, _TOPICS[system], name)
    count = _Count(_MESSAGES[system](name))
    count.begin(writer, in_flight)
    return count


async def _main(connect: Callable[[str], Awaitable[_Count]], names: list[str], seconds: float) -> None:
    idle_s = time.process_time()
    counts = await asyncio.gather(*map(connect, names))

    def answers() -> int:
        return sum(each.answers for each in counts)

    loop = asyncio.get_running_loop()
    await asyncio.sleep(_WARM_UP * seconds)
    before, began_s = answers(), loop.time()
    await asyncio.sleep(seconds)
    sent, took_s = answers(), loop.time() - began_s
    cpu_s = time.process_time() - idle_s
    print(json.dumps({"messages": sent - before, "seconds": took_s, "sent": sent, "cpu_s": cpu_s}))


if __name__ == "__main__":
    _system, _address, _connections, _in_flight, _seconds, _name = sys.argv[1:]
    _connect = partial(_connected, _system, _address, in_flight=int(_in_flight))
    uvloop.run(_main(_connect, [f"{_name}-{number}" for number in range(int(_connections))], float(_seconds)))
