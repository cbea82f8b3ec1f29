"""Addresses of brokers as lookups and metadata name them."""

from urllib.parse import urlsplit

from sluicegate.broker.broker_ports import Address

_PORTS = {"http": 80, "https": 443}


def address_of(url: str) -> Address:
    """Host and port of a broker's URL or of `host:port`; the host in lower case.

    :raises ValueError: if it is not exactly a host and a port.
    """
    parts = urlsplit(url if "://" in url else f"//{url}")
    port = parts.port or _PORTS.get(parts.scheme)
    if not parts.hostname or port is None or parts.path.strip("/") or parts.query or parts.username:
        raise ValueError(f"expected host:port or a URL, got {url!r}")
    return parts.hostname, port
