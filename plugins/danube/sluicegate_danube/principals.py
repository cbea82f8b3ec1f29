"""Who a call says it is from."""

import base64
import json
from collections.abc import Sequence

_MAX_TOKEN = 16_384
_BEARER = "bearer "


def principal(headers: Sequence[tuple[str, str]]) -> str | None:
    """The subject of a JSON web token (RFC 7519); worth nothing until the broker has accepted the token.

    :param headers: names (lower case) and values of a call's metadata.
    :return: None if there is no token that can be read; the broker will say what it thinks of it.
    """
    told = [value for name, value in headers if name == "authorization"]
    if len(told) != 1 or len(told[0]) > _MAX_TOKEN or told[0][: len(_BEARER)].lower() != _BEARER:
        return None
    try:
        body = told[0][len(_BEARER) :].split(".")[1]
        subject = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["sub"]
    except (ValueError, IndexError, KeyError, TypeError, RecursionError):
        return None
    return subject if isinstance(subject, str) and subject else None
