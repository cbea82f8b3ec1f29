"""Lookups over HTTP: responds with the gateway's address for the broker that serves a topic."""

import json
from collections.abc import Callable
from typing import Any

from sluicegate_pulsar.web.http_errors import WebError
from sluicegate_pulsar.web.rewritten_addresses import Translate

_PLAIN = ("brokerUrl", "nativeUrl")
_SECURE = ("brokerUrlTls", "brokerUrlSsl")
_WEB = ("httpUrl", "httpUrlTls")


def rewritten(content: bytes, translate: Translate, web: Callable[[str], str | None]) -> bytes | None:
    """Put the gateway's addresses into a lookup's response.

    No address of a broker is left in it: a client that followed one would bypass the gateway.

    :param content: the broker's response.
    :param translate: the gateway's URL in place of a broker's.
    :param web: the gateway's web URL in place of a broker's.
    :return: the response for the client; None if it names no address.
    :raises WebError: if it names only brokers that are not known.
    """
    try:
        response = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(response, dict):
        return None
    brokers = [response[key] for key in (*_PLAIN, *_SECURE) if response.get(key)]
    if not brokers:
        return None
    served = next((url for each in brokers if (url := translate(str(each))) is not None), None)
    if served is None:
        raise WebError(
            503,
            "the topic is served by a broker for which the gateway has no port",
            f"{brokers[0]}: name it in `bootstrap`",
        )
    return json.dumps(_rewritten(response, served, web)).encode()


def _rewritten(response: dict[str, Any], url: str, web: Callable[[str], str | None]) -> dict[str, Any]:
    secure = url.startswith("pulsar+ssl:")
    said: dict[str, Any] = {}
    for key, value in response.items():
        if key in _SECURE:
            said[key] = url if secure else ("" if value else value)
        elif key in _PLAIN:
            # Some clients insist on this field, whichever they use.
            said[key] = url
        elif key in _WEB:
            said[key] = web(str(value)) if value else value
        elif isinstance(value, str) and "://" in value:
            continue  # a kind of address that is not known here
        else:
            said[key] = value
    if secure:
        said.setdefault(_SECURE[0], url)
    return said
