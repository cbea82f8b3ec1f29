"""From when to when the certificates of a PEM file are valid.

The standard library reads that of trusted authorities only, and a library for certificates is a compiled
dependency of several megabytes for two dates. The dates stand at a fixed place of each certificate (RFC
5280, 4.1), which is found here by stepping over what is before them.
"""

import re
import ssl
from datetime import UTC, datetime
from typing import NamedTuple

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_VERSION = 0xA0
"""Tag of the version, the only optional field before the dates."""
_UTC_TIME = 0x17
"""Tag of a date with two digits for its year; the other kind of date has four."""


class Validity(NamedTuple):
    """When a certificate is valid."""

    begins: datetime
    ends: datetime


class _Element(NamedTuple):
    tag: int
    start: int
    end: int


def validities(pem: str) -> list[Validity]:
    """Read the dates of all certificates in a PEM file, in its order.

    :raises ValueError: if one is no X.509 certificate.
    """
    return [_validity(ssl.PEM_cert_to_DER_cert(found[0])) for found in _CERTIFICATE.finditer(pem)]


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
        raise ValueError("it ends too early") from None


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
