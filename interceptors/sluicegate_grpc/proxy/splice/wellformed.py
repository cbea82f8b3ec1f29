"""Whether a request's headers are as they must be (RFC 9113 sections 8.2 and 8.3, gRPC over HTTP/2).

The gateway and the server have to read the same. Of a repeated header, one may take the first and the other
the last; of a path, one may take all and the other the part before a `?`.
"""

import re
from collections.abc import Sequence
from typing import TypeAlias

Headers: TypeAlias = Sequence[tuple[str, str]]
"""Names (lower case) and values of a request's headers, pseudo-headers included."""
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9a-z]+")
_FORBIDDEN_IN_VALUES = re.compile(r"[\0\r\n]")
_PSEUDO = frozenset({":method", ":scheme", ":path", ":authority"})
_REQUIRED = frozenset({":method", ":scheme", ":path"})
_OF_ONE_CONNECTION = frozenset(
    {"connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"}
)
_PATH = re.compile(r"/[^?#]*")


def is_wellformed(headers: Headers) -> bool:
    """Whether every server reads a request's headers as the gateway does."""
    pseudo: set[str] = set()
    has_others = False
    for name, value in headers:
        if _FORBIDDEN_IN_VALUES.search(value):
            return False
        if name.startswith(":"):
            if has_others or name in pseudo or name not in _PSEUDO or (name == ":path" and not value):
                return False
            pseudo.add(name)
            continue
        has_others = True
        if not _NAME.fullmatch(name) or name in _OF_ONE_CONNECTION or (name == "te" and value != "trailers"):
            return False
    return pseudo >= _REQUIRED


def is_method(path: str) -> bool:
    """Whether all servers use the whole of a path."""
    return _PATH.fullmatch(path) is not None
