"""The names by which an HTTP server may be asked: no web page may reach it by a name of its own."""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from ipaddress import ip_address
from typing import Any, TypeAlias

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

_Message: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[_Message]]
_Send: TypeAlias = Callable[[_Message], Awaitable[None]]
_App: TypeAlias = Callable[[_Message, _Receive, _Send], Awaitable[None]]


class HostCheck:
    """An ASGI application that passes on requests whose Host is allowed; others get 421 (RFC 9110, 15.5.20).

    Allowed are `localhost`, every IP address, and the names given. In DNS rebinding, a browser asks by a name
    of the attacker's, who points it to this server; an IP address cannot be pointed elsewhere. So probes and
    scrapers that ask by address, as in Kubernetes, need no entry. No browser sends a request without Host,
    which HTTP/1.0 permits.

    :param app: the application.
    :param names: further host names, such as `gateway.monitoring.svc`; compared without case.
    :param option: where a name is added, for the answer.
    """

    def __init__(self, app: _App, names: Iterable[str], option: str) -> None:
        self._app = app
        self._names = {"localhost", *(name.removesuffix(".").lower() for name in names)}
        self._option = option

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Answer one request."""
        host = Headers(scope=scope).get("host", "")
        if not host or self._allows(host):
            await self._app(scope, receive, send)
            return
        text = f"not served by the name {host}: ask by IP address, or add the name to {self._option}\n"
        await PlainTextResponse(text, 421)(scope, receive, send)

    def _allows(self, host: str) -> bool:
        if host.startswith("["):
            name = host[1:].partition("]")[0]
        else:
            name = host.partition(":")[0].removesuffix(".").lower()
        return name in self._names or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
