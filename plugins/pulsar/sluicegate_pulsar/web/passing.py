"""Requests that the gateway does not handle: passed on unchanged, in both directions, part by part."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

import httpx

from sluicegate.broker import Receive, Scope, Send
from sluicegate.broker.broker_ports import shown
from sluicegate_pulsar.web.http_errors import WebError
from sluicegate_pulsar.web.upstream import MARK, BrokerResponse, Headers, Upstream, end_to_end

log = logging.getLogger("sluicegate.pulsar.web")


class ClientGone(Exception):  # noqa: N818 - no error of the gateway's
    """The client has hung up."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of a client."""

    method: str
    path: str
    """With its percent-encoding."""
    query: str
    """Without the gateway's own mark."""
    headers: Headers
    origin: str
    """Scheme, host and port of the broker that it is for."""
    gateway: str
    """Its scheme, host and port, as the client knows it."""
    client: str
    """Host of the client."""

    @property
    def target(self) -> str:
        """Path and query, as the broker gets them."""
        return f"{self.path}?{self.query}" if self.query else self.path

    def flag(self, name: str) -> bool:
        """Whether a query parameter is `true`."""
        return dict(parse_qsl(self.query)).get(name, "").lower() == "true"

    def for_broker(self, known: str | None) -> "Asked":
        """The same request for another broker.

        :param known: scheme, host and port; None if it is no known broker.
        :raises WebError: if it is None.
        """
        if known is None:
            raise WebError(400, f"{MARK} names no known broker")
        return replace(self, origin=known)


def asked(scope: Scope, advertised: str | None, first: str) -> tuple[Asked, str | None]:
    """Read a request's head.

    :param scope: of ASGI.
    :param advertised: the gateway's host for clients; the address that they reached if None. What they say
        themselves (`Host`) counts for nothing: one client could lead others elsewhere through a shared cache.
    :param first: the broker that requests are for which name none.
    :return: the request, and the broker that it names (unchecked).
    :raises WebError: if the length of the body is given in two ways (RFC 9112, section 6.1), or the method is
        not in upper case: brokers would get it in upper case, and do what was not looked at here.
    """
    headers = [(name.lower(), value) for name, value in scope["headers"]]
    if scope["method"] != scope["method"].upper():
        raise WebError(400, "expected a method in upper case")
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in headers}:
        raise WebError(400, "Content-Length and Transfer-Encoding exclude each other")
    parts = scope.get("query_string", b"").decode("latin-1").split("&")
    marks = [part.removeprefix(f"{MARK}=") for part in parts if part.startswith(f"{MARK}=")]
    query = "&".join(part for part in parts if not part.startswith(f"{MARK}="))
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    peer, (host, port) = scope.get("client"), scope["server"]
    asked = Asked(
        method=scope["method"],
        path=raw.decode("latin-1"),
        query=query,
        headers=headers,
        origin=first,
        gateway=f"{scope['scheme']}://{shown((advertised or host, port))}",
        client=peer[0] if peer else "",
    )
    return asked, marks[0] if marks else None


async def pass_on(request: Asked, upstream: Upstream, idle_s: float, receive: Receive, send: Send) -> None:
    """Carry a request to its broker and the response back.

    :param idle_s: longest time to wait for the client's next part, and for it to take one.
    :raises WebError: if the broker cannot be reached.
    :raises ClientGone: if the client hangs up.
    """
    body = _parts(receive, idle_s) if _has_body(request.headers) else None
    response = await upstream.send(request.origin, request.method, request.target, request.headers, body)
    try:
        headers = end_to_end(response.headers.raw)
        moved = upstream.redirected(response, request.origin + request.target, request.gateway)
        if moved is not None:
            headers = [(name, moved if name == b"location" else value) for name, value in headers]
        await _unless_gone(_relay(response, headers, idle_s, send), receive)
    finally:
        await response.aclose()


async def send_response(response: BrokerResponse, send: Send, content: bytes | None = None) -> None:
    """Send a response that was read whole.

    :param content: other JSON in place of what the broker said.
    """
    headers = list(response.headers)
    body = response.content
    if content is not None:
        body = content
        headers = [each for each in headers if each[0] not in (b"content-length", b"content-type")]
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def read_body(receive: Receive, most: int, idle_s: float) -> bytes:
    """Read a request's body whole.

    :param most: bytes that are accepted.
    :raises WebError: if it is larger.
    :raises ClientGone: if the client hangs up.
    """
    body = bytearray()
    async for part in _parts(receive, idle_s):
        body += part
        if len(body) > most:
            raise WebError(413, f"the body is larger than {most} bytes")
    return bytes(body)


def with_body(body: bytes, receive: Receive) -> Receive:
    """Give a request's body once more, after it was read whole."""
    parts = [body]

    async def again() -> Any:
        return {"type": "http.request", "body": parts.pop()} if parts else await receive()

    return again


async def _relay(response: httpx.Response, headers: Headers, idle_s: float, send: Send) -> None:
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    try:
        async for part in response.aiter_raw():
            async with asyncio.timeout(idle_s):
                await send({"type": "http.response.body", "body": part, "more_body": True})
    except TimeoutError:
        # Connections to the broker are few: clients that do not read must not keep them from others.
        log.warning("an answer was given up: its client took nothing for %g s", idle_s)
        return
    except httpx.HTTPError as error:
        # The answer stays incomplete, and the server closes the connection, so the client notices.
        log.warning("an answer of the admin API broke off: %s", error or type(error).__name__)
        return
    await send({"type": "http.response.body", "body": b""})


def _has_body(headers: Headers) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
        for name, value in headers
    )


async def _parts(receive: Receive, idle_s: float) -> AsyncIterator[bytes]:
    more = True
    while more:
        try:
            async with asyncio.timeout(idle_s):
                message = await receive()
        except TimeoutError:
            raise WebError(408, f"no more of the body came within {idle_s:g} s") from None
        if message["type"] == "http.disconnect":
            raise ClientGone
        if part := message.get("body", b""):
            yield part
        more = message.get("more_body", False)


async def _unless_gone(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Do some work, but no longer than the client is there to see it."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_until_gone(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        working.cancel()
    with suppress(asyncio.CancelledError):
        await working


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
