"""Brokers identified by address: which are known, and the gateway's port for each.

Addresses come from brokers (answers to lookups) and clients (metadata). If the gateway connected to any of
them, it could be made to connect anywhere; so only brokers that the operator names are known.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeAlias

from sluicegate.broker import UNIQUE_FACT, Listener
from sluicegate.config import units
from sluicegate.config.known_brokers import AddressPatterns
from sluicegate.config.models import Listen, Ports

Address: TypeAlias = tuple[str, int]
"""Host, in lower case, and port."""
FACT = UNIQUE_FACT
"""Key prefix of the facts that are kept across restarts."""
_PREFIX = "broker-"
"""Prefix of the names of listeners for a single broker, whose address follows."""
_MAX_BROKERS = 1_000


class BrokerEndpoints(Protocol):
    """What a broker's entry configures about addresses."""

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The configured brokers."""

    @property
    def known_brokers(self) -> tuple[str, ...]:
        """Further brokers as host:port, with `*` for any characters."""

    @property
    def listen(self) -> Listen:
        """Where clients connect."""

    @property
    def client_host(self) -> str:
        """The host in addresses for clients."""

    @property
    def first_node_port(self) -> int:
        """The port of the first broker."""


def node_ports(config: BrokerEndpoints) -> Iterator[Ports]:
    """The ports of the configured brokers; a single broker uses the listener's port."""
    count = len(set(config.addresses))
    if count > 1:
        yield Ports(config.listen.host, config.first_node_port, count, ("node_port_base",), "node ports")


class BrokerPorts:
    """The brokers in the order in which they became known; each keeps its port forever.

    :param facts: the facts kept so far (`on_new`'s keys and values).
    :param address_of: parses a URL or `host:port`; raises ValueError if it is neither.
    """

    def __init__(
        self,
        config: BrokerEndpoints,
        facts: Mapping[str, str],
        address_of: Callable[[str], Address],
    ) -> None:
        self._config = config
        self._address_of = address_of
        self._known = AddressPatterns(config.known_brokers)
        self._numbers: dict[Address, int] = {}
        self.on_new: Callable[[str, str, Listener], None] = lambda key, value, listener: None
        """Called for each broker that is new or gets another port, unless a sibling was first, with a fact to
        keep (key and value) and a listener to open."""
        self._next = 0
        # A broker has several numbers if gateways that share a store met new brokers in different orders.
        for number, key in sorted((int(key.removeprefix(FACT)), key) for key in facts):
            self._numbers.setdefault(address_of(facts[key]), number)
            self._next = number + 1

    def start(self) -> list[tuple[str, str, Listener]]:
        """Register the configured brokers.

        :return: the arguments of `on_new` for all brokers known so far.
        """
        for address in self._config.addresses:
            self._number(address)
        return [self._new(address) for address in self._numbers if address != self._sole]

    def heard(self, content: Mapping[str, str]) -> tuple[str, str, Listener] | None:
        """Take up a broker's port that a sibling remembered first. One that has it here gets another.

        :param content: `key` and `value` of the fact.
        :return: the arguments of `on_new`; None if the broker is known.
        """
        number, address = int(content["key"].removeprefix(FACT)), self._address_of(content["value"])
        self._next = max(self._next, number + 1)
        for other in [each for each, its in self._numbers.items() if its == number and each != address]:
            del self._numbers[other]
            self._number(other)
        if address in self._numbers:
            return None
        self._numbers[address] = number
        return self._new(address)

    def is_known(self, address: Address) -> bool:
        """Whether clients may be sent to a broker."""
        return address in self._config.addresses or self._known.match(*address)

    def target(self, url: str) -> Address | None:
        """The address of the broker in a URL or `host:port`, if that broker is known."""
        try:
            address = self._address_of(url)
        except ValueError:
            return None
        return address if self.is_known(address) else None

    def port_of(self, url: str) -> Address | None:
        """The gateway's address for a broker.

        :param url: URL or `host:port` of the broker.
        :return: None if the broker is not known, or there are too many.
        """
        address = self.target(url)
        if address is None or (address not in self._numbers and len(self._numbers) >= _MAX_BROKERS):
            return None
        return self.advertised(address)

    def advertised(self, address: Address) -> Address:
        """The gateway's address for a known broker."""
        if address == self._sole:
            return self.main
        return self._config.client_host, self._config.first_node_port + self._number(address)

    @property
    def known(self) -> tuple[Address, ...]:
        """The brokers known so far, the configured ones first."""
        return tuple(dict.fromkeys((*self._config.addresses, *self._numbers)))

    def stands_for(self, listener: Listener) -> tuple[Address, ...]:
        """The brokers behind a listener: all configured ones for the main listener, otherwise one."""
        if not listener.name.startswith(_PREFIX):
            return self._config.addresses
        return (self._address_of(listener.name.removeprefix(_PREFIX)),)

    @property
    def main(self) -> Address:
        """The address of the main listener."""
        return self._config.client_host, self._config.listen.port

    @property
    def _sole(self) -> Address | None:
        """The configured broker, reached through the main listener; None if there are several."""
        addresses = self._config.addresses
        return addresses[0] if len(addresses) == 1 else None

    def _number(self, address: Address) -> int:
        number = self._numbers.get(address)
        if number is None:
            number = self._numbers[address] = self._next
            self._next += 1
            self.on_new(*self._new(address))
        return number

    def _new(self, address: Address) -> tuple[str, str, Listener]:
        number, name = self._numbers[address], shown(address)
        port = self._config.first_node_port + number
        return f"{FACT}{number}", name, Listener(f"{_PREFIX}{name}", self._config.listen.host, port, ())


def shown(address: Address) -> str:
    """An address as written in URLs: IPv6 hosts in brackets."""
    return str(units.Address(*address))
