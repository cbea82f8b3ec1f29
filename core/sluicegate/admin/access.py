"""Who may ask the admin API: without a token, processes of this host."""

from http import HTTPStatus
from ipaddress import IPv6Address, ip_address

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from sluicegate.admin.problems import problem

_REMEDY = "ask on the gateway's own host by localhost or 127.0.0.1, or run `sluicegate explain` there"


class LocalOnly:
    """An ASGI application that passes on requests of this host to a loopback name or address.

    The address of the client must be a loopback address, wherever the endpoint listens. So must be the Host:
    a web page could otherwise read answers through a browser of this host, by a name of its own that it
    points here (DNS rebinding).

    :param app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        host = Headers(scope=scope).get("host", "")
        address = (scope.get("client") or ("",))[0]
        if not _is_loopback(address):
            detail = f"the admin API answers processes of its own host only, not {address or 'this client'}"
            await problem("not-local", HTTPStatus.FORBIDDEN, detail, _REMEDY)(scope, receive, send)
        elif not _is_local_name(host):
            detail = f"the admin API is not served by the name {host!r}"
            await problem("wrong-host", HTTPStatus.MISDIRECTED_REQUEST, detail, _REMEDY)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


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
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback
