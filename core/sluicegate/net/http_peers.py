"""Who an HTTP client is by its TLS certificate, for applications."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from sluicegate.net.http_heads import Protocol

_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "street",
    "userId": "UID",
}
"""Names of attributes as OpenSSL writes them."""
_SPECIAL = re.compile(r'[,+"\\<>;]|^[# ]| $')


class PeerProtocol(Protocol):
    """An HTTP connection whose requests name the client of a TLS certificate that was verified.

    It is in the scope as ASGI's TLS extension has it: `extensions.tls.client_cert_name`.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """The handshake is over."""
        tls = transport.get_extra_info("ssl_object")
        shown = tls.getpeercert() if tls is not None else None
        if shown:
            self.app = _Named(self.app, subject_of(shown))
        super().connection_made(transport)


def client_subject(scope: Scope) -> str | None:
    """The subject of the client's certificate; None if it has shown none."""
    tls: Mapping[str, Any] = scope.get("extensions", {}).get("tls", {})
    return tls.get("client_cert_name")


def subject_of(certificate: Mapping[str, Any]) -> str:
    """The subject of a certificate as text, `CN=ops,O=Example` (RFC 4514).

    :param certificate: as from `ssl.SSLObject.getpeercert`.
    """
    return ",".join(
        "+".join(f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in parts)
        for parts in reversed(certificate.get("subject", ()))
    )


def _escaped(value: str) -> str:
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", value).replace("\0", "\\00")


class _Named:
    """An application whose requests name the client.

    :param app: the application.
    :param subject: of the client's certificate.
    """

    def __init__(self, app: ASGIApp, subject: str) -> None:
        self._app = app
        self._tls = {"client_cert_name": subject}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        extensions = {**scope.get("extensions", {}), "tls": self._tls}
        await self._app({**scope, "extensions": extensions}, receive, send)
