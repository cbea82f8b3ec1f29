"""Models of the `tls:` sections."""

import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, Field, field_validator, model_validator

from sluicegate.config.ciphers import check_cipher
from sluicegate.config.strict import Strict
from sluicegate.config.units import Duration, refuse

_DAY_MS = 24 * 3600 * 1000
_SERVER_NAME = re.compile(
    r"(\*\.)?([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z]([a-z0-9_-]{0,61}[a-z0-9_])?"
)


def _check_server_name(name: str) -> str:
    lowered = name.lower()
    if len(lowered) > 253 or not _SERVER_NAME.fullmatch(lowered):
        raise refuse(
            f"{name!r} is not a valid server name",
            "write a host name such as 'kafka.example', or '*.example' for all names one label below it",
        )
    return lowered


ServerName: TypeAlias = Annotated[str, AfterValidator(_check_server_name)]
"""A host name or wildcard for the TLS extension server_name (RFC 6066), which excludes IP addresses."""
Cipher: TypeAlias = Annotated[str, AfterValidator(check_cipher)]


class _Handshake(Strict):
    """Options of the handshake that both directions share."""

    min_version: Literal["TLSv1.2", "TLSv1.3"] = "TLSv1.2"
    """Lowest TLS version that is accepted."""
    ciphers: tuple[Cipher, ...] = ()
    """Cipher suites of TLS 1.2 that may be used, best first, as OpenSSL names them; Python's own choice if
    empty. Those of TLS 1.3 are always on."""

    @model_validator(mode="after")
    def _ciphers_need_tls_1_2(self) -> "_Handshake":
        if self.ciphers and self.min_version == "TLSv1.3":
            raise refuse("'ciphers' apply to TLS 1.2, which 'min_version' excludes", "remove one of the two")
        return self


class NamedCertificate(Strict):
    """A certificate for clients that ask for one of its names (SNI)."""

    names: tuple[ServerName, ...] = Field(min_length=1)
    """Server names; `*.example` stands for all names one label below it."""
    cert: str = Field(min_length=1)
    """PEM file with the certificate chain."""
    key: str = Field(min_length=1)
    """PEM file with its private key."""


class ClientTls(_Handshake):
    """TLS towards clients."""

    needs_client_certificates: ClassVar[bool] = True
    """Whether a client must show a certificate if there is a `client_ca`."""

    cert: str = Field(min_length=1)
    """PEM file with the gateway's certificate chain."""
    key: str = Field(min_length=1)
    """PEM file with its private key."""
    client_ca: str | None = None
    """PEM file; when set, clients must show a certificate that it signed."""
    certificates: tuple[NamedCertificate, ...] = ()
    """Further certificates, for clients that ask for other server names (SNI); 'cert' is for all others."""

    @field_validator("certificates")
    @classmethod
    def _unique_names(cls, certificates: tuple[NamedCertificate, ...]) -> tuple[NamedCertificate, ...]:
        names = [name for certificate in certificates for name in certificate.names]
        for name in names:
            if names.count(name) > 1:
                raise refuse(f"server name {name!r} has two certificates", "keep one of them")
        return certificates

    def pairs(self) -> Iterator[tuple[str, str, str]]:
        """All certificates, each as key prefix (empty or ending with a dot), chain file and key file."""
        yield "", self.cert, self.key
        for index, certificate in enumerate(self.certificates):
            yield f"certificates.{index}.", certificate.cert, certificate.key


class AdminTls(ClientTls):
    """TLS of the admin endpoint, whose clients may also have a token, or be of this host."""

    needs_client_certificates: ClassVar[bool] = False

    client_ca: str | None = None
    """PEM file; clients may show a certificate that it signed, see 'callers'. One of another authority ends
    the handshake."""


class BrokerTls(_Handshake):
    """TLS towards the broker."""

    ca: str | None = None
    """PEM file with the authority of the broker; the system's store if unset."""
    cert: str | None = None
    """PEM file with the gateway's client certificate."""
    key: str | None = None
    """PEM file with its private key."""
    server_name: str | None = Field(default=None, min_length=1)
    """Name to request (SNI) and to verify instead of the host."""

    @model_validator(mode="after")
    def _pair(self) -> "BrokerTls":
        if (self.cert is None) != (self.key is None):
            given, missing = ("cert", "key") if self.key is None else ("key", "cert")
            raise refuse(f"{given!r} is set without {missing!r}", "set both, or neither")
        return self

    def pairs(self) -> Iterator[tuple[str, str, str]]:
        """The client certificate, if configured, in the form of `ClientTls.pairs`."""
        if self.cert is not None and self.key is not None:
            yield "", self.cert, self.key


class Tls(Strict):
    """TLS on either side; a side that is not set uses plain text."""

    client: ClientTls | None = None
    """TLS between clients and the gateway."""
    broker: BrokerTls | None = None
    """TLS between the gateway and the broker."""
    warn_before: tuple[Duration, ...] = (30 * _DAY_MS, 7 * _DAY_MS)
    """How long before a certificate's expiry the log warns; empty for no warnings."""
