"""Where requests with credentials may be redirected to.

A broker redirects requests about another cluster to that cluster, which must not see the credentials of this
one. So redirects are followed among the brokers of one cluster only.
"""

from collections.abc import Callable
from urllib.parse import urljoin, urlsplit

from sluicegate.broker.broker_ports import Address, shown
from sluicegate.host.http_get import shown_url

STATUSES = frozenset({301, 302, 303, 307, 308})
_PORTS = {"http": 80, "https": 443}


class RedirectRefusedError(Exception):
    """A redirect is not followed.

    :param origin: where it leads.
    :param reason: why it is not followed, with the remedy.
    """

    def __init__(self, origin: str, reason: str) -> None:
        super().__init__(f"{origin} {reason}")
        self.origin = origin


def redirected(asked: str, location: str, is_own: Callable[[Address], bool]) -> str:
    """The URL that a redirect leads to.

    :param asked: the URL that was asked for.
    :param location: the redirect's `Location` (RFC 9110, section 10.2.2).
    :param is_own: whether a web address belongs to the cluster.
    :raises RedirectRefusedError: if it leads to no broker of the cluster, or from https to http.
    """
    try:
        url = urljoin(asked, location)
        scheme, address = web_address(url)
    except ValueError:
        raise RedirectRefusedError(repr(shown_url(location)), "is no web address") from None
    if scheme == "http" and urlsplit(asked).scheme == "https":
        reason = "is not encrypted, while `admin.url` is: give the brokers a TLS port (webServicePortTls)"
        raise RedirectRefusedError(origin(url), reason)
    if not is_own(address):
        reason = "is no known broker of this cluster: if it is one, name it in `known_brokers`"
        raise RedirectRefusedError(origin(url), reason)
    return url


def web_address(url: str) -> tuple[str, Address]:
    """Scheme and address of an http or https URL.

    :raises ValueError: if it is none, or has a user name.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc or not url.isascii():
        raise ValueError(f"expected http://host:port, got {url!r}")
    return parts.scheme, (parts.hostname, parts.port or _PORTS[parts.scheme])


def origin(url: str) -> str:
    """Scheme, host and port of an http or https URL, as a URL.

    :raises ValueError: if it is none, or has a user name.
    """
    scheme, address = web_address(url)
    return f"{scheme}://{shown(address)}"
