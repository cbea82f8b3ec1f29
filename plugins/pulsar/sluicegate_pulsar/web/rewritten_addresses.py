"""Addresses of brokers, and the gateway's own in their place."""

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from sluicegate.broker_ports import Address, shown
from sluicegate_pulsar.cluster.brokers import Brokers, address_of
from sluicegate_pulsar.config import PulsarConfig

Translate = Callable[[str], str | None]
"""A broker's URL (`pulsar://host:port`) to the gateway's in its place; None if the broker is not known."""


def translation(config: PulsarConfig, recall: Callable[[str], Mapping[str, str]]) -> Translate:
    """The gateway's URLs for the brokers that its worker stands in for.

    :param config: the cluster's entry.
    :param recall: facts by prefix, as the cluster's front remembers them.
    """
    scheme = "pulsar" if config.tls.client is None else "pulsar+ssl"

    def translate(url: str) -> str | None:
        facts = recall("broker.")
        try:
            address = address_of(url)
        except ValueError:
            return None
        if address not in config.addresses and shown(address) not in facts.values():
            return None
        brokers = Brokers(config, facts)
        brokers.start()
        return f"{scheme}://{shown(brokers.advertised(address))}"

    return translate


class WebAddresses:
    """Which web addresses are the cluster's own; a gateway that follows any redirect could be led anywhere.

    :param config: the cluster's entry.
    :param recall: facts by prefix, as the cluster's front remembers them.
    :raises ValueError: if the entry has no `admin`.
    """

    def __init__(self, config: PulsarConfig, recall: Callable[[str], Mapping[str, str]]) -> None:
        if config.admin is None:
            raise ValueError("expected `admin` beside `web`")
        self._config = config
        self._recall = recall
        self.first = origin(config.admin.url)
        """The configured admin API: scheme, host and port as a URL."""
        self._first = address_of(self.first)

    def known(self, url: str) -> str | None:
        """Scheme, host and port of a URL as a URL, if it is a known broker's; else None."""
        try:
            found = origin(url)
            host, port = address_of(found)
        except ValueError:
            return None
        if (host, port) == self._first or self._config_names((host, port)):
            return found
        hosts = {self._first[0], *(address[0] for address in self._config.addresses)}
        hosts.update(address_of(fact)[0] for fact in self._recall("broker.").values())
        return found if host in hosts and port == self._first[1] else None

    def _config_names(self, address: Address) -> bool:
        host, port = address
        brokers = Brokers(self._config, {})
        # `known_brokers` names brokers by their binary port; their web port is the configured one's.
        ports = {port} if port != self._first[1] else {port, *(each for _, each in self._config.addresses)}
        return any(brokers.is_known((host, each)) for each in ports)


def origin(url: str) -> str:
    """Scheme, host and port of an http or https URL.

    :raises ValueError: if it is none.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError(f"expected http://host:port, got {url!r}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
