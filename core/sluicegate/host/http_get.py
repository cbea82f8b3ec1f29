"""Small, occasional GET requests: metrics of a broker, a query to Prometheus.

A whole HTTP client would take more memory than the gateway's own work, so each request opens a connection.
Responses are bounded in size and time.
"""

import asyncio
import io
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import urlsplit

LARGEST_ANSWER = 16 * 1024 * 1024
"""Bytes, by default."""
_PORTS = {"http": 80, "https": 443}


class HttpError(Exception):
    """A request failed; the message says why.

    :param status: status of the response; 0 if there was none.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


def shown_url(url: str) -> str:
    """A URL for logs and errors: without query, user name and password."""
    scheme, mark, rest = url.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"


async def http_get(
    url: str,
    *,
    timeout_s: float,
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
    largest: int = LARGEST_ANSWER,
) -> bytes:
    """Fetch a URL.

    :param url: `http:` or `https:`; its query must be quoted.
    :param timeout_s: limit for the whole request, in seconds.
    :param token: for `Authorization: Bearer`.
    :param tls: context for `https:` URLs; the system's defaults if None.
    :param largest: most bytes of the whole response.
    :raises HttpError: if there is no response in time, it is too large, or its status is not 200. Its message
        shows no queries, passwords or tokens.
    """
    shown = shown_url(url)
    try:
        async with asyncio.timeout(timeout_s):
            response, content = await exchange(url, token=token, tls=tls, largest=largest)
    except TimeoutError:
        raise HttpError(f"{shown} does not answer within {timeout_s:g} s") from None
    except (OSError, HTTPException, ValueError) as error:
        raise HttpError(f"{shown}: {str(error) or type(error).__name__}") from error
    if response.status != HTTPStatus.OK:
        raise HttpError(f"{shown} answers {response.status} {response.reason}", response.status)
    return content


async def exchange(
    url: str,
    *,
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
    largest: int = LARGEST_ANSWER,
    headers: Mapping[str, str] = MappingProxyType({"Accept": "*/*"}),
) -> tuple[HTTPResponse, bytes]:
    """One request and its response, whatever the status; parameters as for `http_get`.

    :param headers: of the request, besides those of every request.
    :return: the response's head, and its content.
    :raises OSError: if there is no connection.
    :raises HTTPException: if the response is too large, or is not HTTP.
    :raises ValueError: if the URL or the token cannot be sent.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("expected an address such as http://host:9090")
    chosen = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
    port = parts.port or _PORTS[parts.scheme]
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=chosen)
    try:
        # Without user and password: they are no part of the host's name, which servers log.
        writer.write(
            _request(parts.path or "/", parts.query, parts.netloc.rpartition("@")[2], token, headers)
        )
        received = await _read_all(reader, largest)
    finally:
        writer.close()
    response = HTTPResponse(cast("Any", _Received(received)))
    response.begin()
    return response, response.read()


def _request(path: str, query: str, host: str, token: str | None, headers: Mapping[str, str]) -> bytes:
    target = f"{path}?{query}" if query else path
    lines = [f"GET {target} HTTP/1.1", f"Host: {host}"]
    lines += [*(f"{name}: {value}" for name, value in headers.items()), "Connection: close"]
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    # A line break would begin a header of its own, or another request.
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("line breaks in an address or a token")
    return "\r\n".join((*lines, "", "")).encode()


async def _read_all(reader: asyncio.StreamReader, largest: int) -> bytes:
    try:
        # One byte more than allowed: an answer that ends before it fits, and no larger one is ever kept.
        await reader.readexactly(largest + 1)
    except asyncio.IncompleteReadError as whole:
        return whole.partial
    raise HTTPException(f"an answer of more than {largest} bytes")


class _Received:
    """The part of a socket that `HTTPResponse` uses, over received bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)
