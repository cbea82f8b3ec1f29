"""The principal that a call claims, by its JSON web token (RFC 7519)."""

import base64
import json
from collections.abc import Sequence

from sluicegate.model import written_out

_MAX_TOKEN = 16_384
_BEARER = "bearer "


def bearer_principal(headers: Sequence[tuple[str, str]], claims: Sequence[str] = ("sub",)) -> str | None:
    """The principal that a token names; worth nothing until the broker has accepted the token.

    :param headers: names (lower case) and values of a call's metadata.
    :param claims: claims that may name it; the first one present counts.
    :return: None if there is no readable token; the broker then decides.
    """
    tokens = [value for name, value in headers if name == "authorization"]
    if len(tokens) != 1 or len(tokens[0]) > _MAX_TOKEN or tokens[0][: len(_BEARER)].lower() != _BEARER:
        return None
    try:
        body = tokens[0][len(_BEARER) :].split(".")[1]
        content = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        name = next((content[claim] for claim in claims if claim in content), None)
    except (ValueError, IndexError, AttributeError, TypeError, RecursionError):
        return None
    return written_out(name) if isinstance(name, str) and name else None
