"""Names of the TLS 1.2 cipher suites that this machine's OpenSSL can use.

OpenSSL ignores unknown names in a list, so a slip would go unnoticed: each name is looked up here. Suites
of TLS 1.3 are no part of it; all of them are safe, and Python cannot choose among them.
"""

import difflib
import ssl
from functools import cache

from sluicegate.config.units import refuse

_AUTHENTICATIONS = ("auth-rsa", "auth-ecdsa")
_KEY_EXCHANGES = ("kx-ecdhe", "kx-dhe", "kx-rsa")
"""With these a suite proves the server's identity by a certificate, not by a shared secret or not at all."""
_LEAST_BITS = 112
"""Strength below which OpenSSL's default security level refuses a suite in the handshake."""


@cache
def known_ciphers() -> frozenset[str]:
    """Names as OpenSSL writes them, such as `ECDHE-RSA-AES256-GCM-SHA384`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL")
    return frozenset(
        cipher["name"]
        for cipher in context.get_ciphers()
        if cipher["auth"] in _AUTHENTICATIONS
        and cipher["kea"] in _KEY_EXCHANGES
        and cipher["strength_bits"] >= _LEAST_BITS
    )


def check_cipher(name: str) -> str:
    """Accept the name of a cipher suite.

    :raises PydanticCustomError: if OpenSSL knows no such suite, or none that is safe.
    """
    if name in known_ciphers():
        return name
    if name.startswith("TLS_") and "_WITH_" not in name:
        raise refuse(
            f"{name!r} is a suite of TLS 1.3, which cannot be chosen", "take it out: it is always on"
        )
    close = difflib.get_close_matches(_as_openssl_writes(name), sorted(known_ciphers()), 1)
    remedy = f"did you mean {close[0]!r}?" if close else "write a name that 'openssl ciphers' prints"
    raise refuse(f"no cipher suite {name!r}, or none that is safe", remedy)


def _as_openssl_writes(name: str) -> str:
    """Come close to OpenSSL's name of a suite that is named as RFCs and Java do it."""
    return name.removeprefix("TLS_").replace("_WITH_", "_").replace("AES_", "AES").replace("_", "-")
