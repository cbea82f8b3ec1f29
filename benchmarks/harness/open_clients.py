"""Many connected Kafka clients, each with at most one Produce request on its way, on one event loop."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle
from typing import cast

_LENGTH = 4
_ADDRESSES = 8
_PATIENCE_S = 60.0
_STEP_S = 0.001

OnAnswer = Callable[[bytes, float], None]
"""Is called with an answer without its length, and how long it took in ms."""


class Client(asyncio.Protocol):
    """One connection.

    :param request: what it sends each time.
    :param on_answer: is called with each answer.
    """

    def __init__(self, request: bytes, on_answer: OnAnswer) -> None:
        self._request = request
        self._on_answer = on_answer
        self._received = b""
        self._began = 0.0
        self.is_waiting = False
        """Whether a request has no answer yet."""
        self.is_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)

    def send(self) -> None:
        """Send the request, unless the last one has no answer yet."""
        if not self.is_waiting and not self.is_closed:
            self.is_waiting, self._began = True, time.perf_counter()
            self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Take an answer, or a part of one."""
        received = self._received = self._received + data if self._received else data
        if len(received) >= _LENGTH and len(received) >= _LENGTH + int.from_bytes(received[:_LENGTH]):
            self._received = b""
            self.is_waiting = False
            self._on_answer(received[_LENGTH:], (time.perf_counter() - self._began) * 1000)

    def connection_lost(self, _error: Exception | None) -> None:
        """It is closed."""
        self.is_closed = True

    def close(self) -> None:
        """End it."""
        self._transport.close()


class Turns:
    """Clients that take turns, either one when another has its answer, or so many each second.

    :param seen: is called with each answer.
    """

    def __init__(self, seen: OnAnswer) -> None:
        self._seen = seen
        self._clients: list[Client] = []
        self._turns: Iterator[Client] = iter(())
        self._goes_on = False
        """Whether an answer lets the next client send."""
        self.answers = 0

    async def open(self, address: str, requests: Sequence[bytes]) -> None:
        """Connect a client for each request, from several addresses, as a gate leaves places to others.

        :param address: `host:port`.
        """
        host, port = address.split(":")
        loop = asyncio.get_running_loop()
        for number, request in enumerate(requests):
            own = f"127.0.0.{1 + number % _ADDRESSES}", 0
            made = partial(Client, request, self._answered)
            _, client = await loop.create_connection(made, host, int(port), local_addr=own)
            self._clients.append(client)
        self._turns = cycle(self._clients)

    def begin(self, at_once: int) -> None:
        """Have so many clients send, and the next one at each answer."""
        self._goes_on = True
        for _ in range(at_once):
            next(self._turns).send()

    async def keep_pace(self, per_s: float) -> None:
        """Have so many clients send each second, until this is cancelled."""
        self._goes_on = False
        began, sent = time.monotonic(), 0
        while True:
            await asyncio.sleep(_STEP_S)
            due = int((time.monotonic() - began) * per_s)
            for _ in range(due - sent):
                next(self._turns).send()
            sent = due

    async def end(self) -> int:
        """Wait for the last answers and close all.

        :return: clients whose connection was closed, or whose request got no answer in a minute.
        """
        self._goes_on = False
        until = time.monotonic() + _PATIENCE_S
        while any(client.is_waiting and not client.is_closed for client in self._clients):
            if time.monotonic() > until:
                break
            await asyncio.sleep(0.01)
        lost = sum(client.is_waiting or client.is_closed for client in self._clients)
        for client in self._clients:
            client.close()
        return lost

    def _answered(self, answer: bytes, took_ms: float) -> None:
        self.answers += 1
        self._seen(answer, took_ms)
        if self._goes_on:
            next(self._turns).send()
