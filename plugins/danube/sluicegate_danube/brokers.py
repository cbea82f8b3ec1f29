"""The brokers of a cluster, by the addresses that lookups and metadata name."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from sluicegate.broker_ports import Address, BrokerPorts
from sluicegate_danube.config import DanubeConfig

_PORTS = {"http": 80, "https": 443}


def brokers_of(config: DanubeConfig, facts: Mapping[str, str]) -> BrokerPorts:
    """The brokers that are known, and the gateway's ports that stand for them.

    :param config: of the cluster.
    :param facts: what was remembered before.
    """
    return BrokerPorts(config, facts, address_of)


def address_of(url: str) -> Address:
    """Host and port of a broker's URL or of `host:port`; the host in lower case.

    :raises ValueError: if it is not exactly a host and a port.
    """
    parts = urlsplit(url if "://" in url else f"//{url}")
    port = parts.port or _PORTS.get(parts.scheme)
    if not parts.hostname or port is None or parts.path.strip("/") or parts.query or parts.username:
        raise ValueError(f"expected host:port or a URL, got {url!r}")
    return parts.hostname, port
