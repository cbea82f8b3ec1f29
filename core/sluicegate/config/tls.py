"""Creates SSL contexts from the files of `tls:` sections, and checks these files.

All connections and `sluicegate check` use this module, so both agree. Encrypted keys are refused: OpenSSL
would prompt for the passphrase on the terminal, and a gateway has none.
"""

import os
import ssl
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeAlias

from sluicegate.config.certificates import Validity, validities
from sluicegate.config.sni import choosing_by_name
from sluicegate.config.tls_models import BrokerTls, ClientTls

TlsSection: TypeAlias = ClientTls | BrokerTls

_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_PRIVATE_KEY = "PRIVATE KEY-----"
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class TlsFileError(OSError):
    """A file of a `tls:` section cannot be used.

    :param key: the key of the section that refers to the file, such as cert, ca or certificates.0.cert.
    :param problem: what is wrong, with the file's path.
    :param remedy: what to do.
    """

    def __init__(self, key: str, problem: str, remedy: str) -> None:
        super().__init__(f"{problem} (tls: {key}); {remedy}")
        self.key = key
        self.problem = problem
        self.remedy = remedy


class _EncryptedError(Exception):
    """OpenSSL asked for a passphrase."""


class Expiry(NamedTuple):
    """When the certificates of one file expire."""

    key: str
    """Key of the section that refers to the file."""
    path: str
    ends: datetime


def context_for_clients(tls: ClientTls, alpn: Iterable[str] = ()) -> ssl.SSLContext:
    """Create the context for client connections. It selects among several certificates by server name.

    :param alpn: protocols to negotiate (RFC 7301).
    :raises TlsFileError: if a file cannot be used.
    """
    first, *others = (_server_context(tls, alpn, keys, cert, key) for keys, cert, key in tls.pairs())
    if others:
        first.sni_callback = choosing_by_name(
            (name, context)
            for certificate, context in zip(tls.certificates, others, strict=True)
            for name in certificate.names
        )
    return first


def context_for_broker(tls: BrokerTls, alpn: Iterable[str] = ()) -> ssl.SSLContext:
    """Create the context for broker connections. Without `ca`, the system's authorities verify the broker.

    :param alpn: protocols to negotiate (RFC 7301).
    :raises TlsFileError: if a file cannot be used.
    """
    if tls.ca is not None:
        _load_authorities(_scratch(), "ca", tls.ca)
    context = ssl.create_default_context(cafile=tls.ca)
    _restrict(context, tls, alpn)
    for _, cert, key in tls.pairs():
        _load_chain(context, "", cert, key)
    return context


def files(tls: TlsSection) -> Iterator[str]:
    """Paths of all files that a context of this section reads."""
    for _, cert, key in tls.pairs():
        yield from (cert, key)
    _, authorities = _authorities(tls)
    if authorities is not None:
        yield authorities
    elif isinstance(tls, BrokerTls) and (system := ssl.get_default_verify_paths().cafile):
        yield system


def problems(tls: TlsSection) -> list[TlsFileError]:
    """Every file of a section that cannot be used, with the first problem of each."""
    pieces: list[Callable[[], object]] = []
    for keys, cert, key in tls.pairs():
        pieces += [partial(_load_chain, _scratch(), keys, cert, key), partial(_text, f"{keys}key", key)]
    name, authorities = _authorities(tls)
    if authorities is not None:
        pieces.append(partial(_load_authorities, _scratch(), name, authorities))
    errors: dict[str, TlsFileError] = {}
    for piece in pieces:
        try:
            piece()
        except TlsFileError as error:
            errors.setdefault(error.key, error)
    return list(errors.values())


def expiries(tls: TlsSection) -> list[Expiry]:
    """Expiry of a section's certificates: of a chain its first one, of authorities the last to expire.

    :raises TlsFileError: if a file cannot be read.
    """
    expiries = [
        Expiry(f"{keys}cert", cert, dates[0].ends)
        for keys, cert, _ in tls.pairs()
        if (dates := _dates(f"{keys}cert", cert))
    ]
    name, path = _authorities(tls)
    if path is not None and (dates := _dates(name, path)):
        expiries.append(Expiry(name, path, max(date.ends for date in dates)))
    return expiries


def outdated(tls: TlsSection, now: datetime) -> list[TlsFileError]:
    """Certificates of a section without problems that are not valid at this time.

    Of a chain only the first certificate, the gateway's own, counts. A file of authorities is reported only
    if none of them is valid, because bundles often include expired ones.
    """
    errors: list[TlsFileError] = []
    for keys, cert, _ in tls.pairs():
        if dates := _dates(f"{keys}cert", cert):
            errors += _outdated(f"{keys}cert", f"certificate {cert!r}", dates[0], now)
    name, path = _authorities(tls)
    dates = _dates(name, path) if path is not None else []
    if dates and not any(date.begins <= now <= date.ends for date in dates):
        newest = max(dates, key=lambda date: date.ends)
        errors += _outdated(name, f"every authority in {path!r}", newest, now)
    return errors


def _authorities(tls: TlsSection) -> tuple[str, str | None]:
    return ("client_ca", tls.client_ca) if isinstance(tls, ClientTls) else ("ca", tls.ca)


def _scratch() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


def _server_context(tls: ClientTls, alpn: Iterable[str], keys: str, cert: str, key: str) -> ssl.SSLContext:
    """A server context with one certificate; the other options are the same for a whole section."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context, tls, alpn)
    _load_chain(context, keys, cert, key)
    if tls.client_ca is not None:
        _load_authorities(context, "client_ca", tls.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED if tls.needs_client_certificates else ssl.CERT_OPTIONAL
    return context


def _restrict(context: ssl.SSLContext, tls: TlsSection, alpn: Iterable[str]) -> None:
    context.minimum_version = _VERSIONS[tls.min_version]
    if tls.ciphers:
        context.set_ciphers(":".join(tls.ciphers))
    if protocols := list(alpn):
        context.set_alpn_protocols(protocols)


def _load_chain(context: ssl.SSLContext, keys: str, cert: str, key: str) -> None:
    """Load a certificate chain and its key into a context.

    :param keys: prefix of the keys that refer to both files: empty, or `certificates.0.`.
    """
    chain, private = _text(f"{keys}cert", cert), _text(f"{keys}key", key)
    if _CERTIFICATE not in chain:
        is_swapped = _PRIVATE_KEY in chain and _CERTIFICATE in private
        remedy = "swap 'cert' and 'key'" if is_swapped else "name a PEM file with the certificate"
        raise TlsFileError(f"{keys}cert", f"{cert!r} holds {_content(chain)}, expected a certificate", remedy)
    if _PRIVATE_KEY not in private:
        problem = f"{key!r} holds {_content(private)}, expected a private key"
        raise TlsFileError(f"{keys}key", problem, "name a PEM file with the certificate's private key")
    try:
        context.load_cert_chain(cert, key, _refuse_to_ask)
    except _EncryptedError:
        remedy = "store the key without a passphrase: openssl pkey -in KEY -out NEW, readable by the gateway"
        raise TlsFileError(f"{keys}key", f"private key {key!r} is encrypted", f"{remedy} only") from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = f"{key!r} is not the key of certificate {cert!r}"
            raise TlsFileError(
                f"{keys}key", problem, "name the key that belongs to the certificate"
            ) from None
        problem = f"certificate {cert!r} and key {key!r} cannot be used: {error.reason or error}"
        raise TlsFileError(f"{keys}cert", problem, "create them again, as PEM files") from None


def _load_authorities(context: ssl.SSLContext, name: str, path: str) -> None:
    text = _text(name, path)
    remedy = "name a PEM file with the certificates of the authorities"
    if _CERTIFICATE not in text:
        raise TlsFileError(name, f"{path!r} holds {_content(text)}, expected a certificate", remedy)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise TlsFileError(name, f"{path!r} cannot be used: {error.reason or error}", remedy) from None


def _refuse_to_ask() -> NoReturn:
    raise _EncryptedError


def _text(name: str, path: str) -> str:
    try:
        return Path(path).read_text("latin-1")
    except OSError as error:
        problem = f"cannot read {path!r}: {error.strerror}"
        remedy = f"check the path and its permissions; the absolute path is {os.path.abspath(path)!r}"
        raise TlsFileError(name, problem, remedy) from None
    except ValueError:
        raise TlsFileError(name, f"{path!r} is not a valid path", "name a PEM file") from None


def _content(text: str) -> str:
    """The kind of a file's content, for messages that must not show the content."""
    if _CERTIFICATE in text:
        return "a certificate"
    if _PRIVATE_KEY in text:
        return "a private key"
    return "something else" if text.strip() else "nothing"


def _dates(name: str, path: str) -> list[Validity]:
    try:
        return validities(_text(name, path))
    except ValueError:
        return []  # OpenSSL accepted the file, so it can be used; only its dates are unknown


def _outdated(name: str, what: str, dates: Validity, now: datetime) -> list[TlsFileError]:
    if now > dates.ends:
        remedy = "renew it: the peer refuses an expired certificate"
        return [TlsFileError(name, f"{what} expired on {dates.ends:%Y-%m-%d %H:%M} UTC", remedy)]
    if now < dates.begins:
        problem = f"{what} is not valid before {dates.begins:%Y-%m-%d %H:%M} UTC"
        return [TlsFileError(name, problem, "check the clock of this machine, or name another certificate")]
    return []
