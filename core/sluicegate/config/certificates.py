"""Reads the validity period of each certificate in a PEM file.

The standard library exposes these dates only for trusted authorities. A certificate library would add a
compiled dependency of several megabytes for two dates. Both dates have a fixed position in the ASN.1
structure (RFC 5280, 4.1), so this module skips the elements before them.
"""

import re
import ssl
from datetime import UTC, datetime
from typing import NamedTuple

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_VERSION = 0xA0
"""Tag of the version, the only optional field that precedes the dates."""
_UTC_TIME = 0x17
"""Tag of a date with a two-digit year. GeneralizedTime, the alternative, has four digits."""


class Validity(NamedTuple):
    """The validity period of a certificate."""

    begins: datetime
    ends: datetime


class _Element(NamedTuple):
    tag: int
    start: int
    end: int


def validities(pem: str) -> list[Validity]:
    """Read the validity periods of all certificates in a PEM file, in file order.

    :raises ValueError: if one of them is not an X.509 certificate.
    """
    return [_validity(ssl.PEM_cert_to_DER_cert(match[0])) for match in _CERTIFICATE.finditer(pem)]


def _validity(der: bytes) -> Validity:
    try:
        signed = _element(der, _element(der, 0).start)
        at = signed.start
        if der[at] == _VERSION:
            at = _element(der, at).end
        for _ in ("serial number", "signature algorithm", "issuer"):
            at = _element(der, at).end
        begins = _element(der, _element(der, at).start)
        return Validity(_date(der, begins), _date(der, _element(der, begins.end)))
    except IndexError:
        raise ValueError("the certificate is truncated") from None


def _element(der: bytes, at: int) -> _Element:
    length, start = der[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length = int.from_bytes(der[start : start + size], "big")
        start += size
    return _Element(der[at], start, start + length)


def _date(der: bytes, element: _Element) -> datetime:
    text = der[element.start : element.end].decode("ascii")
    if element.tag == _UTC_TIME:
        text = ("20" if text < "50" else "19") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
