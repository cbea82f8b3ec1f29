"""Who may ask the admin API, and for what."""

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Sequence
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from time import monotonic
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sluicegate.admin.problems import problem
from sluicegate.admin.running_note import ACTOR, own_token
from sluicegate.config.admin_section import AdminCaller
from sluicegate.net.http_peers import client_subject

_REMEDY = "ask on the gateway's own host by localhost or 127.0.0.1, or send a token of admin.callers"
_WRONG_TOKENS = 10
"""Wrong tokens of one address in a window, after which it is refused without a look."""
_WINDOW_S = 60.0
_MOST_ADDRESSES = 1_000
_LONGEST_SUBJECT = 1_000


class Caller(NamedTuple):
    """A caller of the admin API."""

    name: str
    """For the history."""
    may_write: bool


class WrongTokens:
    """Counts wrong tokens by address, in windows of a minute.

    :param now: monotonic time in seconds.
    """

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def count(self, address: str) -> None:
        """Count a wrong token."""
        began, count = self._counts.pop(address, (self._now(), 0))
        if self._now() - began >= _WINDOW_S:
            began, count = self._now(), 0
        self._counts[address] = began, count + 1
        if len(self._counts) > _MOST_ADDRESSES:
            # A client with a network of IPv6 addresses must not fill the memory.
            self._counts.popitem(last=False)

    def wait_s(self, address: str) -> float:
        """How long the address has to wait; 0 if it may try."""
        began, count = self._counts.get(address, (0.0, 0))
        return max(0.0, began + _WINDOW_S - self._now()) if count >= _WRONG_TOKENS else 0.0


class Access:
    """An ASGI application that passes on requests of those who may make them, with `caller` in the scope.

    A request with a token or a client certificate may come from anywhere; a token counts first. Without both,
    only processes of this host may ask, by a loopback name or address, and only read. The address of the
    client must be a loopback address, wherever the endpoint listens. So must be the Host: a web page could
    otherwise read answers through a browser of this host, by a name of its own that it points here (DNS
    rebinding). Foreign pages, which a browser names in Origin, are refused.

    :param app: the application.
    :param callers: of the configuration file.
    :param key: of the gateway's note, for the token of its own user.
    """

    def __init__(
        self, app: ASGIApp, callers: Sequence[AdminCaller], key: str, wrong: WrongTokens | None = None
    ) -> None:
        self._app = app
        own = hashlib.sha256(own_token(key).encode()).hexdigest()
        askers = [caller for caller in callers if caller.scope != "metrics"]
        self._known = [(own, Caller("", may_write=True))] + [
            (caller.sha256, Caller(caller.name, caller.scope == "write"))
            for caller in askers
            if caller.sha256 is not None
        ]
        self._subjects = {
            caller.certificate: Caller(caller.name, caller.scope == "write")
            for caller in askers
            if caller.certificate is not None
        }
        self._wrong = WrongTokens() if wrong is None else wrong

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers = Headers(scope=scope)
        caller = self._caller(scope, headers)
        if isinstance(caller, Caller):
            scope["caller"] = caller
            await self._app(scope, receive, send)
        else:
            await caller(scope, receive, send)

    def _caller(self, scope: Scope, headers: Headers) -> Caller | Response:
        host, origin = headers.get("host", ""), headers.get("origin")
        address = (scope.get("client") or ("",))[0]
        # Before all credentials: a browser shows a client certificate by itself, whichever page asks.
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            remedy = "use the gateway's own page, or a program that is no browser"
            return problem("foreign-origin", HTTPStatus.FORBIDDEN, f"asked by a page of {origin!r}", remedy)
        authorization = headers.get("authorization")
        if authorization is not None:
            return self._bearer(authorization, address, headers.get(ACTOR, ""))
        subject = client_subject(scope)
        if subject is not None:
            return self._subjects.get(subject) or _unknown_certificate(subject)
        if not _is_loopback(address):
            detail = (
                f"without a token, the admin API answers its own host only, not {address or 'this client'}"
            )
            return problem("not-local", HTTPStatus.FORBIDDEN, detail, _REMEDY)
        if not _is_local_name(host):
            detail = f"without a token, the admin API is not served by the name {host!r}"
            return problem("wrong-host", HTTPStatus.MISDIRECTED_REQUEST, detail, _REMEDY)
        return Caller("", may_write=False)

    def _bearer(self, authorization: str, address: str, actor: str) -> Caller | Response:
        # Before the token is looked at: a right guess must not be told from a wrong one.
        wait_s = self._wrong.wait_s(address)
        if wait_s:
            retry = {"retry-after": str(int(wait_s) + 1)}
            detail = "too many wrong tokens from this address"
            return problem("too-many-tries", HTTPStatus.TOO_MANY_REQUESTS, detail, "wait a minute", retry)
        digest = _digest(authorization)
        # All are compared, each in constant time: how long it takes tells nothing of any token.
        matching = [caller for known, caller in self._known if hmac.compare_digest(known, digest)]
        if matching:
            [caller] = matching[:1]
            return caller if caller.name else caller._replace(name=actor or "the gateway's user")
        self._wrong.count(address)
        return _wrong_token()


def scrape_guard(callers: Sequence[AdminCaller]) -> Callable[[Request], Response | None]:
    """What refuses to show /metrics: once a caller has the scope `metrics`, a token is needed to see them.

    :param callers: of the configuration file.
    """
    known = [caller.sha256 for caller in callers if caller.sha256 is not None]
    subjects = {caller.certificate for caller in callers if caller.certificate is not None}
    is_open = all(caller.scope != "metrics" for caller in callers)

    def refusal(request: Request) -> Response | None:
        digest = _digest(request.headers.get("authorization", ""))
        matching = [each for each in known if hmac.compare_digest(each, digest)]
        subject = client_subject(request.scope)
        if is_open or matching or subject in subjects:
            return None
        has_token = "authorization" in request.headers
        return _wrong_token() if subject is None or has_token else _unknown_certificate(subject)

    return refusal


def _digest(authorization: str) -> str:
    """The digest of a bearer token; of an empty one if there is none."""
    scheme, _, token = authorization.partition(" ")
    token = token.strip() if scheme.lower() == "bearer" else ""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def _wrong_token() -> Response:
    challenge = {"www-authenticate": 'Bearer realm="sluicegate"'}
    remedy = "send `Authorization: Bearer TOKEN` with a token whose sha256 is in admin.callers, "
    remedy += "or show a client certificate that is named there"
    return problem("wrong-token", HTTPStatus.UNAUTHORIZED, "no such token", remedy, challenge)


def _unknown_certificate(subject: str) -> Response:
    remedy = "add the subject as `certificate` of an entry of admin.callers, or ask without a certificate"
    detail = f"no caller has a certificate of {subject[:_LONGEST_SUBJECT]!r}"
    return problem("unknown-certificate", HTTPStatus.FORBIDDEN, detail, remedy)


def _is_local_name(host: str) -> bool:
    if host.startswith("["):
        return _is_loopback(host[1:].partition("]")[0])
    name = host.partition(":")[0].removesuffix(".").lower()
    return name == "localhost" or _is_loopback(name)


def _is_loopback(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    # A listener for both versions of IP sees local clients as ::ffff:127.0.0.1.
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback
