"""Who a call says it is from."""

import base64
import json
from collections.abc import Sequence

_MAX_TOKEN = 16_384
_BEARER = "bearer "


def principal(headers: Sequence[tuple[str, str]]) -> str | None:
    """Whom a JSON web token (RFC 7519) names; worth nothing until the broker has accepted the token.

    Danube goes by the claim `principal_name`; tokens without it are of others, and name their subject.

    :param headers: names (lower case) and values of a call's metadata.
    :return: None if there is no token that can be read; the broker will say what it thinks of it.
    """
    told = [value for name, value in headers if name == "authorization"]
    if len(told) != 1 or len(told[0]) > _MAX_TOKEN or told[0][: len(_BEARER)].lower() != _BEARER:
        return None
    try:
        body = told[0][len(_BEARER) :].split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        name = claims.get("principal_name", claims.get("sub"))
    except (ValueError, IndexError, AttributeError, TypeError, RecursionError):
        return None
    return name if isinstance(name, str) and name else None
