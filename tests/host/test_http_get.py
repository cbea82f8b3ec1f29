"""One question, one answer, with bounds: what servers may do and what is made of it."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.gateway.lab import upstream
from tests.waiting import LONG_S

from sluicegate.host.http_get import HttpError, http_get, shown_url

Answer = Callable[[str], Awaitable[bytes]]


@asynccontextmanager
async def server(answer: bytes | Answer) -> AsyncIterator[str]:
    """An address whose answer is given; a callable gets the request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        writer.write(answer if isinstance(answer, bytes) else await answer(request))
        writer.close()

    async with upstream(serve) as port:
        yield f"http://127.0.0.1:{port}"


async def test_what_is_asked() -> None:
    asked = []

    async def answer(request: str) -> bytes:
        asked.append(request)
        return b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    async with server(answer) as url:
        assert await http_get(f"{url}/a/b?q=%22x%22", timeout_s=LONG_S, token="t") == b"ok"
        assert await http_get(url, timeout_s=LONG_S) == b"ok"
    host = url.removeprefix("http://")
    common = f"Host: {host}\r\nAccept: */*\r\nConnection: close\r\n"
    assert asked == [
        f"GET /a/b?q=%22x%22 HTTP/1.1\r\n{common}Authorization: Bearer t\r\n\r\n",
        f"GET / HTTP/1.1\r\n{common}\r\n",
    ]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nabcd",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcdand more",
    ],
)
async def test_ways_to_end_an_answer(answer: bytes) -> None:
    async with server(answer) as url:
        assert await http_get(url, timeout_s=LONG_S) == b"abcd"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 503 Busy\r\n\r\n", "answers 503 Busy"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "answers 204 No Content"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabcd", "IncompleteRead"),
        (b"", "BadStatusLine|closed connection"),
        (b"\x00\x01\x02\r\n\r\n", ": "),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2000, "an answer of more than 1000 bytes"),
    ],
)
async def test_no_answer(answer: bytes, problem: str) -> None:
    async with server(answer) as url:
        with pytest.raises(HttpError, match=problem) as refused:
            await http_get(f"{url}/path?secret=1", timeout_s=LONG_S, largest=1000)
    assert str(refused.value).startswith(f"{url}/path")
    assert "secret" not in str(refused.value)
    assert refused.value.status == (int(found[1]) if (found := re.search(r"answers (\d+)", problem)) else 0)


async def test_a_server_that_takes_its_time() -> None:
    async def never(request: str) -> bytes:
        await asyncio.sleep(600)
        return b""

    async with server(never) as url:
        with pytest.raises(HttpError, match=r"does not answer within 0\.1 s"):
            await http_get(url, timeout_s=0.1)


@pytest.mark.parametrize("url", ["ftp://a/b", "http://", "a:9090", "http://127.0.0.1:99999/"])
async def test_what_is_no_address(url: str) -> None:
    with pytest.raises(HttpError):
        await http_get(url, timeout_s=LONG_S)


async def test_a_token_cannot_add_headers() -> None:
    async with server(b"") as url:
        with pytest.raises(HttpError, match="line breaks"):
            await http_get(url, timeout_s=LONG_S, token="a\r\nX: b")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://host:9090/a/b@c?token=x", "http://host:9090/a/b@c"),
        ("https://me:p@ss@host/", "https://host/"),
        ("http://me:secret@host?q=1", "http://host"),
    ],
)
def test_no_password_and_no_query_is_told(url: str, shown: str) -> None:
    assert shown_url(url) == shown


async def test_a_password_in_an_address_does_not_show_where_it_fails() -> None:
    with pytest.raises(HttpError) as caught:
        await http_get("http://me:secret@127.0.0.1:1/metrics?q=secret", timeout_s=LONG_S)
    assert "http://127.0.0.1:1/metrics" in str(caught.value)
    assert "secret" not in str(caught.value)
