"""Addresses of brokers, and the gateway's own in their place."""

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from sluicegate.broker.broker_ports import FACT, Address, shown
from sluicegate_pulsar.cluster.brokers import Brokers, address_of
from sluicegate_pulsar.cluster.redirects import RedirectRefusedError, origin, redirected, web_address
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
        facts = recall(FACT)
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
        self._first = web_address(self.first)[1]

    def follow(self, asked: str, location: str) -> tuple[str, str]:
        """Where a redirect leads.

        :param asked: the URL that was redirected.
        :return: scheme, host and port; path and query.
        :raises RedirectRefusedError: if it leads to no known broker, or from https to http.
        """
        url = redirected(asked, location, self._is_own)
        parts = urlsplit(url)
        return origin(url), (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def known(self, url: str) -> str | None:
        """Scheme, host and port of a URL, if the configured admin API may redirect there; else None."""
        try:
            return self.follow(self.first, origin(url))[0]
        except (ValueError, RedirectRefusedError):
            return None

    def _is_own(self, address: Address) -> bool:
        """Whether it is a known broker's; clients may name one, so its port must be known too."""
        if address == self._first:
            return True
        brokers = Brokers(self._config, {})
        if address[1] != self._first[1]:
            return brokers.is_known(address)
        brokers.listed(address_of(fact)[0] for fact in self._recall(FACT).values())
        return address[0] == self._first[0] or brokers.is_known_host(address)
