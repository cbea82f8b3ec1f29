"""Requests to the cluster's admin API: the only module that opens connections."""

import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from sluicegate_pulsar.cluster.redirects import STATUSES, RedirectRefusedError
from sluicegate_pulsar.web.http_errors import WebError
from sluicegate_pulsar.web.rewritten_addresses import WebAddresses

Headers = Sequence[tuple[bytes, bytes]]

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"expect",
        b"host",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_OF_PROXIES = frozenset({b"forwarded", b"via", b"x-real-ip"})
_OF_PROXIES_PREFIXES = (b"x-forwarded-", b"x-original-")
"""Headers that a broker trusts from a proxy: the principal (`X-Original-Principal`), and its address."""
_OF_THE_BODY = frozenset({b"accept-encoding", b"content-encoding", b"content-length", b"content-type"})
_CONNECTIONS = 200
MARK = "sluicegate_broker"
"""Query parameter of rewritten redirects: which broker the client was sent to. It never reaches a broker."""

_MAX_REDIRECTS = 5
MAX_RESPONSE = 4 * 1024 * 1024
LARGEST_LIST = 32 * 1024 * 1024
"""Bytes of a response that lists the topics of a namespace: hundreds of thousands."""


@dataclass(frozen=True, slots=True)
class BrokerResponse:
    """A response that was read whole."""

    status: int
    headers: Headers
    content: bytes

    @property
    def accepted(self) -> bool:
        """Whether the broker did what it was asked."""
        return 200 <= self.status < 300

    def with_header(self, name: bytes, value: bytes) -> "BrokerResponse":
        """The same response with another value of a header that it has."""
        changed = [(each, value if each == name else old) for each, old in self.headers]
        return replace(self, headers=changed)


class Upstream:
    """The cluster's admin API; every request carries its caller's own credentials.

    :param addresses: where it is, and where it may redirect to.
    :param tls: what to speak with `https` addresses; the system's defaults if None.
    :param timeout_s: longest time to wait for the next part of a response.
    """

    def __init__(self, addresses: WebAddresses, tls: ssl.SSLContext | None, timeout_s: float = 60.0) -> None:
        self._addresses = addresses
        # One client for all callers: what one of them is given as a cookie is never sent for another.
        nobody = CookieJar(policy=DefaultCookiePolicy(allowed_domains=[]))
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout_s, connect=5.0, pool=5.0),
            limits=httpx.Limits(max_connections=_CONNECTIONS),
            verify=tls if tls is not None else _system_tls(),
            trust_env=False,
            cookies=nobody,
        )

    async def send(
        self,
        origin: str,
        method: str,
        target: str,
        headers: Headers,
        body: AsyncIterator[bytes] | bytes | None = None,
    ) -> httpx.Response:
        """Send a request; the caller reads the response and closes it.

        :param origin: scheme, host and port of the broker.
        :param target: path and query, sent as they are.
        :param headers: those that end at the gateway, and those that only a proxy may send, are left out.
        :raises WebError: if the broker cannot be reached or does not answer.
        """
        request = httpx.Request(
            method,
            origin,
            headers=[each for each in end_to_end(headers) if not _is_of_proxies(each[0])],
            content=body,
            extensions={"target": target.encode("latin-1"), "timeout": self._client.timeout.as_dict()},
        )
        try:
            return await self._client.send(request, stream=True)
        except httpx.PoolTimeout:
            raise WebError(503, "too many requests at once: try again") from None
        except httpx.TimeoutException:
            raise WebError(504, "the broker's admin API did not answer in time", origin) from None
        except httpx.HTTPError as error:
            detail = f"{origin}: {error or type(error).__name__}"
            raise WebError(502, "the broker's admin API cannot be reached", detail) from None

    async def call(
        self,
        origin: str,
        method: str,
        target: str,
        headers: Headers,
        body: bytes | None = None,
        most: int = MAX_RESPONSE,
    ) -> BrokerResponse:
        """Send a request of the gateway's own under its caller's credentials, and follow known redirects.

        :param body: JSON, if any.
        :param most: bytes of the largest response that is read.
        :raises WebError: if the response is incomplete, or redirects to an unknown address.
        """
        own = [(name, value) for name, value in headers if name not in _OF_THE_BODY]
        own.append((b"accept-encoding", b"identity"))
        if body is not None:
            own.append((b"content-type", b"application/json"))
        for _ in range(_MAX_REDIRECTS):
            response = await self.send(origin, method, target, own, body)
            whole = await self.read(response, most)
            location = response.headers.get("location")
            if response.status_code not in STATUSES or location is None:
                return whole
            origin, target = self.follow(origin + target, location)
        raise WebError(502, f"the broker's admin API redirects more than {_MAX_REDIRECTS} times", origin)

    def follow(self, asked: str, location: str) -> tuple[str, str]:
        """Where a redirect leads.

        :param asked: the URL that was redirected.
        :return: scheme, host and port; path and query.
        :raises WebError: if it leads to no known broker, or from https to http.
        """
        try:
            return self._addresses.follow(asked, location)
        except RedirectRefusedError as error:
            raise WebError(502, "the broker redirects to one that is not known", str(error)) from None

    def redirected(self, response: httpx.Response, asked: str, gateway: str) -> bytes | None:
        """The `Location` for the client of a response that is a redirect; None if it is none.

        It leads back to the gateway, with a mark for the broker if that is not the configured one.

        :param asked: the URL that was asked for.
        :param gateway: scheme, host and port of the gateway.
        :raises WebError: if it leads to no known broker.
        """
        location = response.headers.get("location")
        if location is None or response.status_code not in STATUSES:
            return None
        origin, target = self.follow(asked, location)
        if origin != self._addresses.first:
            target += f"{'&' if '?' in target else '?'}{MARK}={origin}"
        return f"{gateway}{target}".encode("latin-1")

    async def read(self, response: httpx.Response, most: int = MAX_RESPONSE) -> BrokerResponse:
        """Read a response whole, and close it.

        :param most: bytes that are read.
        :raises WebError: if it is too large, or breaks off.
        """
        content = bytearray()
        try:
            async for part in response.aiter_raw():
                content += part
                if len(content) > most:
                    raise WebError(502, f"the broker's answer is larger than {most} bytes")
        except httpx.HTTPError as error:
            detail = str(error) or type(error).__name__
            raise WebError(502, "the broker's answer broke off", detail) from None
        finally:
            await response.aclose()
        return BrokerResponse(response.status_code, end_to_end(response.headers.raw), bytes(content))

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()


@cache
def _system_tls() -> ssl.SSLContext:
    """The system's authorities; reading them takes a while."""
    return ssl.create_default_context()


def _is_of_proxies(name: bytes) -> bool:
    return name in _OF_PROXIES or name.startswith(_OF_PROXIES_PREFIXES)


def end_to_end(headers: Headers) -> list[tuple[bytes, bytes]]:
    """The headers that are not only for the next hop, their names in lower case."""
    lowered = [(name.lower(), value) for name, value in headers]
    named = {
        each.strip().lower() for name, value in lowered if name == b"connection" for each in value.split(b",")
    }
    return [(name, value) for name, value in lowered if name not in _HOP_BY_HOP and name not in named]
