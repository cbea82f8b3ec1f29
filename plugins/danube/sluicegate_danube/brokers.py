"""The brokers of a cluster: which of them clients may be sent to, and the gate's port that stands for each.

A lookup's answer is a broker's word, and `x-danube-broker-url` is a client's. A gate that dials whatever it
is told can be made to connect anywhere: only brokers that the operator names are known.
"""

import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from sluicegate.broker import Listener
from sluicegate.config import units
from sluicegate_danube.config import DanubeConfig

Address = tuple[str, int]
FACT = "broker."
"""Prefix of the facts that are remembered over restarts."""
_MAX_BROKERS = 1_000
_PORTS = {"http": 80, "https": 443}


class Brokers:
    """Which brokers there are, in the order in which they became known.

    :param config: of the cluster.
    :param facts: what was remembered before (`on_new`'s keys and values).
    """

    def __init__(self, config: DanubeConfig, facts: Mapping[str, str]) -> None:
        self._config = config
        self._patterns = [
            re.compile(".*".join(re.escape(part) for part in name.split("*")), re.IGNORECASE)
            for name in config.known_brokers
        ]
        self._places: dict[Address, int] = {}
        self.on_new: Callable[[str, str, Listener], None] = lambda key, value, listener: None
        """Called with a fact to remember and a listener to open for each broker that is new."""
        for key in sorted(facts, key=lambda key: int(key.removeprefix(FACT))):
            self._places[address_of(facts[key])] = int(key.removeprefix(FACT))

    def start(self) -> list[tuple[str, str, Listener]]:
        """Take note of the configured brokers.

        :return: what `on_new` is called with, for all brokers known so far.
        """
        for address in self._config.addresses:
            self._place(address)
        return [self._new(address) for address in self._places if address != self._sole]

    def target(self, url: str) -> Address | None:
        """The broker that a URL or `host:port` names, if it is known."""
        try:
            address = address_of(url)
        except ValueError:
            return None
        known = address in self._config.addresses or any(
            pattern.fullmatch(shown(address)) for pattern in self._patterns
        )
        return address if known else None

    def port_of(self, url: str) -> Address | None:
        """Where clients reach a broker through the gate, at an address that stands for it alone.

        :param url: URL or `host:port` of the broker.
        :return: None if it is not known.
        """
        address = self.target(url)
        if address is None or (address not in self._places and len(self._places) >= _MAX_BROKERS):
            return None
        if address == self._sole:
            return self.main
        return self._config.client_host, self._config.first_node_port + self._place(address)

    @property
    def main(self) -> Address:
        """The address that all clients know."""
        return self._config.client_host, self._config.listen.port

    @property
    def _sole(self) -> Address | None:
        """The only configured broker, for which the main listener stands."""
        addresses = self._config.addresses
        return addresses[0] if len(addresses) == 1 else None

    def _place(self, address: Address) -> int:
        place = self._places.get(address)
        if place is None:
            place = self._places[address] = len(self._places)
            self.on_new(*self._new(address))
        return place

    def _new(self, address: Address) -> tuple[str, str, Listener]:
        place, name = self._places[address], shown(address)
        port = self._config.first_node_port + place
        return f"{FACT}{place}", name, Listener(f"broker-{name}", self._config.listen.host, port, (address,))


def shown(address: Address) -> str:
    """An address as it stands in URLs: IPv6 hosts in brackets."""
    return str(units.Address(*address))


def address_of(url: str) -> Address:
    """Host and port of a broker's URL or of `host:port`; the host in lower case.

    :raises ValueError: if there is no host or no port to be had, or more than that.
    """
    parts = urlsplit(url if "://" in url else f"//{url}")
    port = parts.port or _PORTS.get(parts.scheme)
    if not parts.hostname or port is None or parts.path.strip("/") or parts.query or parts.username:
        raise ValueError(f"expected host:port or a URL, got {url!r}")
    return parts.hostname, port
