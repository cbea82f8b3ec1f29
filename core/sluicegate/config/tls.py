"""The files that `tls:` sections name: made into SSL contexts, or told what is wrong with them.

All connections get their contexts here and `sluicegate check` looks here, so that both agree. An encrypted
key is refused: OpenSSL would ask the terminal for its passphrase, and nobody sits at a gateway's terminal.
"""

import os
import ssl
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeAlias

from sluicegate.config.certificates import Validity, validities
from sluicegate.config.models import BrokerTls, ClientTls

TlsSection: TypeAlias = ClientTls | BrokerTls

_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_PRIVATE_KEY = "PRIVATE KEY-----"


class TlsFileError(OSError):
    """A file of a `tls:` section cannot be used.

    :param key: the key of the section that names the file: cert, key, ca or client_ca.
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


def context_for_clients(tls: ClientTls) -> ssl.SSLContext:
    """What to speak with clients.

    :raises TlsFileError: if a file cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_chain(context, tls.cert, tls.key)
    if tls.client_ca is not None:
        _load_authorities(context, "client_ca", tls.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def context_for_broker(tls: BrokerTls) -> ssl.SSLContext:
    """What to speak with the broker; the system's authorities verify it if no `ca` is given.

    :raises TlsFileError: if a file cannot be used.
    """
    if tls.ca is not None:
        _load_authorities(_scratch(), "ca", tls.ca)
    context = ssl.create_default_context(cafile=tls.ca)
    if tls.cert is not None and tls.key is not None:
        _load_chain(context, tls.cert, tls.key)
    return context


def problems(tls: TlsSection) -> list[TlsFileError]:
    """Every file of a section that cannot be used, with the first problem of each."""
    pieces: list[Callable[[], object]] = []
    if tls.cert is not None and tls.key is not None:
        pieces += [partial(_load_chain, _scratch(), tls.cert, tls.key), partial(_text, "key", tls.key)]
    name, authorities = _authorities(tls)
    if authorities is not None:
        pieces.append(partial(_load_authorities, _scratch(), name, authorities))
    found: dict[str, TlsFileError] = {}
    for piece in pieces:
        try:
            piece()
        except TlsFileError as error:
            found.setdefault(error.key, error)
    return list(found.values())


def outdated(tls: TlsSection, now: datetime) -> list[TlsFileError]:
    """Certificates that are not valid now; for a section without problems.

    Of a chain the first certificate counts, which is the gateway's own. A file of authorities is reported
    only if none of them is valid, as bundles often keep some that have expired.
    """
    found = []
    if tls.cert is not None and (dates := _dates("cert", tls.cert)):
        found += _outdated("cert", f"certificate {tls.cert!r}", dates[0], now)
    name, path = _authorities(tls)
    dates = _dates(name, path) if path is not None else []
    if dates and not any(date.begins <= now <= date.ends for date in dates):
        newest = max(dates, key=lambda date: date.ends)
        found += _outdated(name, f"every authority in {path!r}", newest, now)
    return found


def _authorities(tls: TlsSection) -> tuple[str, str | None]:
    return ("client_ca", tls.client_ca) if isinstance(tls, ClientTls) else ("ca", tls.ca)


def _scratch() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


def _load_chain(context: ssl.SSLContext, cert: str, key: str) -> None:
    chain, private = _text("cert", cert), _text("key", key)
    if _CERTIFICATE not in chain:
        is_swapped = _PRIVATE_KEY in chain and _CERTIFICATE in private
        remedy = "exchange 'cert' and 'key'" if is_swapped else "name a PEM file with the certificate"
        raise TlsFileError("cert", f"{cert!r} holds {_content(chain)}, expected a certificate", remedy)
    if _PRIVATE_KEY not in private:
        problem = f"{key!r} holds {_content(private)}, expected a private key"
        raise TlsFileError("key", problem, "name a PEM file with the certificate's private key")
    try:
        context.load_cert_chain(cert, key, _refuse_to_ask)
    except _EncryptedError:
        remedy = "store the key without a passphrase: openssl pkey -in KEY -out NEW, readable by the gateway"
        raise TlsFileError("key", f"private key {key!r} is encrypted", f"{remedy} only") from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = f"{key!r} is not the key of certificate {cert!r}"
            raise TlsFileError("key", problem, "name the key that the certificate was made for") from None
        problem = f"certificate {cert!r} and key {key!r} cannot be used: {error.reason or error}"
        raise TlsFileError("cert", problem, "make them anew, as PEM files") from None


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
        remedy = f"check the path and its permissions; it was looked for at {os.path.abspath(path)!r}"
        raise TlsFileError(name, problem, remedy) from None
    except ValueError:
        raise TlsFileError(name, f"{path!r} is no path", "name a PEM file") from None


def _content(text: str) -> str:
    """What a file holds, for messages that must not show it."""
    if _CERTIFICATE in text:
        return "a certificate"
    if _PRIVATE_KEY in text:
        return "a private key"
    return "something else" if text.strip() else "nothing"


def _dates(name: str, path: str) -> list[Validity]:
    try:
        return validities(_text(name, path))
    except ValueError:
        return []  # OpenSSL has read it, so it can be used; only its dates are not known


def _outdated(name: str, what: str, dates: Validity, now: datetime) -> list[TlsFileError]:
    if now > dates.ends:
        remedy = "renew it, as the other side refuses it"
        return [TlsFileError(name, f"{what} expired on {dates.ends:%Y-%m-%d %H:%M} UTC", remedy)]
    if now < dates.begins:
        problem = f"{what} is not valid before {dates.begins:%Y-%m-%d %H:%M} UTC"
        return [TlsFileError(name, problem, "check the clock of this machine, or name another certificate")]
    return []
