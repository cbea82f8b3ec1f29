"""Clients that begin a request and stall do not block a server."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from tests.waiting import LONG_S, until_so

from sluicegate.net.http import HttpServer
from sluicegate.net.http_heads import Protocol

WHOLE = b"GET / HTTP/1.1\r\nHost: gate\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: ga"

BEGUN = b"POST / HTTP/1.1\r\nHost: gate\r\nContent-Length: 5\r\n\r\n"
"""The application answers it without its body."""

HEAD_S, TAKEN_S = 12_345.0, 12_346.0
"""Bounds that only a test's hand brings about."""

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Deadlines:
    """Those of heads and of answers; they pass when a test says so, and not with the time."""

    def __init__(self, call_later: Callable[..., asyncio.TimerHandle]) -> None:
        self._call_later = call_later
        self._made: list[tuple[asyncio.TimerHandle, Callable[[], object]]] = []

    def call_later(
        self, delay: float, callback: Callable[..., object], *arguments: Any
    ) -> asyncio.TimerHandle:
        """As the loop's own."""
        handle = self._call_later(delay, callback, *arguments)
        if delay in (HEAD_S, TAKEN_S):
            self._made.append((handle, callback))
        return handle

    @property
    def due(self) -> list[Callable[[], object]]:
        """What those do that have not been taken back."""
        return [callback for handle, callback in self._made if not handle.cancelled()]


@pytest.fixture
async def deadlines(monkeypatch: pytest.MonkeyPatch) -> Deadlines:
    loop = asyncio.get_running_loop()
    made = Deadlines(loop.call_later)
    monkeypatch.setattr(loop, "call_later", made.call_later)
    return made


@asynccontextmanager
async def serving(connections: int = 100, head_s: float = LONG_S) -> AsyncIterator[HttpServer]:
    app = PlainTextResponse("hello")
    server = HttpServer(app, "127.0.0.1", 0, "test", connections=connections, head_s=head_s)
    server.start()
    try:
        yield server
    finally:
        await server.stop()


async def accepted(server: HttpServer) -> Protocol:
    """The server's side of its only connection."""
    state = server._server.server_state
    await until_so(lambda: state.connections)
    [connection] = state.connections
    assert isinstance(connection, Protocol)
    return connection


@asynccontextmanager
async def connections(server: HttpServer, count: int, sent: bytes) -> AsyncIterator[list[Connection]]:
    """Clients, after each has sent the same bytes."""
    made = [await asyncio.open_connection(*server.address) for _ in range(count)]
    for _, writer in made:
        writer.write(sent)
    try:
        yield made
    finally:
        for _, writer in made:
            writer.close()


async def answer(connection: Connection, sent: bytes = b"") -> bytes:
    """What a client gets for what it sends, up to the end of one answer, or to that of its connection."""
    reader, writer = connection
    writer.write(sent)
    async with asyncio.timeout(LONG_S):
        try:
            return await reader.readuntil(b"hello")
        except asyncio.IncompleteReadError as ended:
            return ended.partial


async def test_an_endless_head_times_out() -> None:
    async with serving(head_s=0.05) as server, connections(server, 1, HALF) as [one]:
        assert await answer(one) == b""


async def test_a_silent_connection_times_out() -> None:
    async with serving(head_s=0.05) as server, connections(server, 1, b"") as [one]:
        assert await answer(one) == b""


async def test_the_second_head_of_a_connection_times_out_as_well(deadlines: Deadlines) -> None:
    async with serving(head_s=HEAD_S) as server, connections(server, 1, WHOLE) as [one]:
        assert (await answer(one)).endswith(b"hello")
        assert deadlines.due == []
        one[1].write(HALF)
        await until_so(lambda: deadlines.due)
        deadlines.due[0]()
        assert await answer(one) == b""


async def test_an_answer_may_take_longer_than_a_head(deadlines: Deadlines) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow(scope: object, receive: object, send: object) -> None:
        began.set()
        await go_on.wait()
        await PlainTextResponse("hello")(scope, receive, send)  # type: ignore[arg-type] # as ASGI has them

    server = HttpServer(slow, "127.0.0.1", 0, "test", head_s=HEAD_S)
    server.start()
    async with connections(server, 1, WHOLE) as [one]:
        await began.wait()
        assert deadlines.due == []
        go_on.set()
        assert (await answer(one)).endswith(b"hello")
    await server.stop()


async def test_a_client_that_has_just_connected_is_answered_while_the_server_stops() -> None:
    async with serving() as server, connections(server, 1, b"") as [one]:
        connection = await accepted(server)
        connection._connected_s = math.inf
        stopping = asyncio.ensure_future(server.stop())
        await until_so(lambda: connection._is_stopping)
        assert (await answer(one, WHOLE)).endswith(b"hello")
        assert await one[0].read() == b"", "it is its only request"
        await stopping


@pytest.mark.parametrize("sent", [b"", HALF])
async def test_a_client_that_has_long_been_silent_does_not_delay_a_stop(sent: bytes) -> None:
    async with serving() as server, connections(server, 1, sent) as [one]:
        connection = await accepted(server)
        connection._connected_s = -math.inf
        server._server.config.timeout_graceful_shutdown = None  # else it waits no longer than that
        await asyncio.wait_for(server.stop(), LONG_S)
        assert await one[0].read() == b""


async def test_too_many_waiting_connections_close_the_oldest() -> None:
    async with serving(connections=20) as server, connections(server, 30, HALF) as waiting:
        ended = [await answer(each) for each in waiting[:20]]
        assert ended == [b""] * 20
        async with connections(server, 1, WHOLE) as [other]:
            assert (await answer(other)).startswith(b"HTTP/1.1 200 ")
        assert (await answer(waiting[-1], b"te\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_a_request_in_progress_is_never_closed_for_others() -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def held(scope: object, receive: object, send: object) -> None:
        began.set()
        await go_on.wait()
        await PlainTextResponse("hello")(scope, receive, send)  # type: ignore[arg-type] # as ASGI has them

    server = HttpServer(held, "127.0.0.1", 0, "test", connections=20)
    server.start()
    async with connections(server, 1, WHOLE) as [one]:
        await began.wait()
        async with connections(server, 15, HALF) as waiting:
            assert await answer(waiting[0]) == b""
            go_on.set()
            assert (await answer(one)).endswith(b"hello")
    await server.stop()


async def test_the_rest_of_a_body_times_out_once_its_request_is_answered(deadlines: Deadlines) -> None:
    async with serving(head_s=HEAD_S) as server, connections(server, 1, BEGUN) as [one]:
        assert (await answer(one)).endswith(b"hello")
        one[1].write(b"x")
        async with connections(server, 1, WHOLE) as [other]:
            assert (await answer(other)).endswith(b"hello")
        [due] = deadlines.due
        due()
        assert await answer(one) == b""


async def test_a_body_that_ends_after_its_answer_lets_its_connection_go_on(deadlines: Deadlines) -> None:
    async with serving(head_s=HEAD_S) as server, connections(server, 1, BEGUN) as [one]:
        assert (await answer(one)).endswith(b"hello")
        assert (await answer(one, b"12345" + WHOLE)).startswith(b"HTTP/1.1 200 ")
        assert deadlines.due == []


async def test_answered_requests_with_bodies_that_never_end_give_way_to_others() -> None:
    async with serving(connections=20) as server, connections(server, 0, b"") as made:
        for _ in range(30):
            made.append(await asyncio.open_connection(*server.address))
            assert (await answer(made[-1], BEGUN)).startswith(b"HTTP/1.1 200 ")
        assert await answer(made[0]) == b""


async def large(scope: Any, receive: Any, send: Any) -> None:
    """Answers with more than sockets buffer, or with little at `/small`."""
    body = b"hello" if scope["path"] == "/small" else b"." * (8 << 20)
    await PlainTextResponse(body)(scope, receive, send)


SMALL = b"GET /small HTTP/1.1\r\nHost: gate\r\n\r\n"


async def test_the_taking_of_an_answer_times_out(deadlines: Deadlines) -> None:
    server = HttpServer(large, "127.0.0.1", 0, "test", taken_s=TAKEN_S)
    server.start()
    async with connections(server, 1, WHOLE) as [slow]:
        await until_so(lambda: deadlines.due)
        deadlines.due[0]()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await slow[0].readexactly(8 << 20)
    await server.stop()


async def test_clients_that_do_not_take_their_answers_give_way_to_others(deadlines: Deadlines) -> None:
    server = HttpServer(large, "127.0.0.1", 0, "test", connections=20, taken_s=TAKEN_S)
    server.start()
    async with connections(server, 9, WHOLE) as first:
        await until_so(lambda: len(deadlines.due) == 9)
        async with connections(server, 30, WHOLE), connections(server, 1, SMALL) as [other]:
            assert (await answer(other)).startswith(b"HTTP/1.1 200 ")
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await first[0][0].readexactly(8 << 20)
    await server.stop()


async def test_a_client_that_takes_its_answer_late_goes_on(deadlines: Deadlines) -> None:
    server = HttpServer(large, "127.0.0.1", 0, "test", connections=20, taken_s=TAKEN_S)
    server.start()
    async with connections(server, 1, WHOLE) as [slow]:
        await until_so(lambda: deadlines.due)
        await slow[0].readuntil(b"\r\n\r\n")
        await slow[0].readexactly(8 << 20)
        await until_so(lambda: not deadlines.due)
        assert (await answer(slow, SMALL)).startswith(b"HTTP/1.1 200 ")
    await server.stop()
