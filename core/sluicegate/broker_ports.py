"""Brokers identified by address: which are known, and the gateway's port for each.

A lookup's answer is a broker's word, and a broker named in metadata is a client's. A gateway that dials
whatever it is told can be made to connect anywhere: only brokers that the operator names are known.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeAlias

from sluicegate.broker import UNIQUE_FACT, Listener
from sluicegate.config import units
from sluicegate.config.models import Listen, Ports

Address: TypeAlias = tuple[str, int]
"""Host, in lower case, and port."""
FACT = UNIQUE_FACT
"""Prefix of the facts that are remembered over restarts."""
_PREFIX = "broker-"
"""What names of listeners begin with that stand for one broker, whose address follows."""
_MAX_BROKERS = 1_000


class BrokerEndpoints(Protocol):
    """What a broker's entry says about the ways to it."""

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The configured brokers."""

    @property
    def known_brokers(self) -> tuple[str, ...]:
        """Further ones, host:port, with `*` for any part of a name."""

    @property
    def listen(self) -> Listen:
        """Where clients connect."""

    @property
    def client_host(self) -> str:
        """Host that clients are told."""

    @property
    def first_node_port(self) -> int:
        """The port of the first broker."""


def node_ports(config: BrokerEndpoints) -> Iterator[Ports]:
    """The ports that stand for the configured brokers; a single one has the listener's port."""
    count = len(set(config.addresses))
    if count > 1:
        yield Ports(config.listen.host, config.first_node_port, count, ("node_port_base",), "node ports")


class BrokerPorts:
    """Which brokers there are, in the order in which they became known; their ports are the same for good.

    :param config: of the cluster.
    :param facts: what was remembered before (`on_new`'s keys and values).
    :param address_of: reads a URL or `host:port`; raises ValueError if it is none.
    """

    def __init__(
        self,
        config: BrokerEndpoints,
        facts: Mapping[str, str],
        address_of: Callable[[str], Address],
    ) -> None:
        self._config = config
        self._address_of = address_of
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

    def is_known(self, address: Address) -> bool:
        """Whether clients may be sent to a broker."""
        return address in self._config.addresses or any(
            pattern.fullmatch(shown(address)) for pattern in self._patterns
        )

    def target(self, url: str) -> Address | None:
        """The broker that a URL or `host:port` names, if it is known."""
        try:
            address = self._address_of(url)
        except ValueError:
            return None
        return address if self.is_known(address) else None

    def port_of(self, url: str) -> Address | None:
        """Where clients reach a broker through the gateway, at an address that stands for it alone.

        :param url: URL or `host:port` of the broker.
        :return: None if it is not known, or there are too many.
        """
        address = self.target(url)
        if address is None or (address not in self._places and len(self._places) >= _MAX_BROKERS):
            return None
        return self.advertised(address)

    def advertised(self, address: Address) -> Address:
        """Where clients reach a known broker through the gateway."""
        if address == self._sole:
            return self.main
        return self._config.client_host, self._config.first_node_port + self._place(address)

    @property
    def known(self) -> tuple[Address, ...]:
        """The brokers that were named so far, the configured ones first."""
        return tuple(dict.fromkeys((*self._config.addresses, *self._places)))

    def stands_for(self, listener: Listener) -> tuple[Address, ...]:
        """The brokers that a listener's sessions dial: one, or all configured ones for the main listener."""
        if not listener.name.startswith(_PREFIX):
            return self._config.addresses
        return (self._address_of(listener.name.removeprefix(_PREFIX)),)

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
        return f"{FACT}{place}", name, Listener(f"{_PREFIX}{name}", self._config.listen.host, port, ())


def shown(address: Address) -> str:
    """An address as it stands in URLs: IPv6 hosts in brackets."""
    return str(units.Address(*address))
