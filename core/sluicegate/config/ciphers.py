"""Names of the TLS 1.2 cipher suites that this machine's OpenSSL can use.

OpenSSL silently ignores unknown names in a list, so each name is checked here. TLS 1.3 suites are not
included: all of them are safe, and Python cannot choose among them.
"""

import difflib
import ssl
from functools import cache

from sluicegate.config.units import refuse

_AUTHENTICATIONS = ("auth-rsa", "auth-ecdsa")
_KEY_EXCHANGES = ("kx-ecdhe", "kx-dhe", "kx-rsa")
"""Key exchanges whose suites authenticate the server by its certificate."""
_LEAST_BITS = 112
"""OpenSSL's default security level refuses weaker suites in the handshake."""


@cache
def known_ciphers() -> frozenset[str]:
    """The OpenSSL names of all usable suites, such as `ECDHE-RSA-AES256-GCM-SHA384`."""
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
    """Return the name of a cipher suite if it can be used.

    :raises PydanticCustomError: if OpenSSL does not know the suite, or considers it unsafe.
    """
    if name in known_ciphers():
        return name
    if name.startswith("TLS_") and "_WITH_" not in name:
        raise refuse(
            f"{name!r} is a TLS 1.3 suite, which cannot be chosen", "remove it: it is always enabled"
        )
    close = difflib.get_close_matches(_as_openssl_writes(name), sorted(known_ciphers()), 1)
    remedy = f"did you mean {close[0]!r}?" if close else "write a name that 'openssl ciphers' prints"
    raise refuse(f"unknown or unsafe cipher suite {name!r}", remedy)


def _as_openssl_writes(name: str) -> str:
    """Approximate the OpenSSL name of a suite from its RFC (and Java) name."""
    return name.removeprefix("TLS_").replace("_WITH_", "_").replace("AES_", "AES").replace("_", "-")
