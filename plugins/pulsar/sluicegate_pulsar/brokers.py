"""The brokers of a cluster: which of them clients may be sent to, and the gate's port that stands for each.

A lookup's answer is a broker's word, but a gate that dials whatever it is told can be made to connect
anywhere: only brokers that the operator or the admin API names are known.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import urlsplit

from sluicegate.broker import Listener
from sluicegate.config import units
from sluicegate_pulsar.config import PulsarConfig

Address = tuple[str, int]
_FACT = "broker."
_MAX_BROKERS = 1_000
_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651, "http": 80, "https": 443}


class Brokers:
    """Which brokers there are, in the order in which they became known.

    :param config: of the cluster.
    :param facts: what was remembered before (`remember`'s keys and values).
    """

    def __init__(self, config: PulsarConfig, facts: Mapping[str, str]) -> None:
        self._config = config
        self._ports = {port for _, port in config.addresses}
        self._patterns = [
            re.compile(".*".join(re.escape(part) for part in name.split("*")), re.IGNORECASE)
            for name in config.known_brokers
        ]
        self._hosts: set[str] = set()
        self._places: dict[Address, int] = {}
        self.on_new: Callable[[str, str, Listener], None] = lambda key, value, listener: None
        """Called with a fact to remember and a listener to open for each broker that is new."""
        for key in sorted(facts, key=lambda key: int(key.removeprefix(_FACT))):
            self._places[address_of(facts[key])] = int(key.removeprefix(_FACT))

    def start(self) -> list[tuple[str, str, Listener]]:
        """Take note of the configured brokers.

        :return: what `on_new` is called with, for all brokers known so far.
        """
        for address in self._config.addresses:
            self._place(address)
        return [self._new(address) for address in self._places if address != self._sole]

    def listed(self, hosts: Iterable[str]) -> None:
        """Take note of the hosts that the admin API lists."""
        self._hosts.update(host.lower() for host in hosts)

    def is_known(self, address: Address) -> bool:
        """Whether clients may be sent to a broker."""
        host, port = address[0].lower(), address[1]
        return (
            address in self._config.addresses
            or (host in self._hosts and port in self._ports)
            or any(pattern.fullmatch(shown((host, port))) for pattern in self._patterns)
        )

    def target(self, url: str) -> Address | None:
        """The broker that a URL or `host:port` names, if it is known."""
        try:
            address = address_of(url)
        except ValueError:
            return None
        return address if self.is_known(address) else None

    def advertised(self, address: Address) -> Address:
        """Where clients reach a known broker through the gate."""
        host = self._config.advertised_host or self._config.listen.host
        if address == self._sole:
            return host, self._config.listen.port
        return host, self._config.first_node_port + self._place(address)

    @property
    def _sole(self) -> Address | None:
        """The only configured broker, for which the main listener stands."""
        addresses = self._config.addresses
        return addresses[0] if len(addresses) == 1 else None

    def translate(self, url: str, *, tls: bool) -> str | None:
        """The gate's URL in place of a broker's; None if the broker is not known.

        :param url: `pulsar://host:port` or the same with `+ssl`.
        :param tls: whether clients speak TLS with the gate.
        """
        address = self.target(url)
        if address is None or (address not in self._places and len(self._places) >= _MAX_BROKERS):
            return None
        return f"{'pulsar+ssl' if tls else 'pulsar'}://{shown(self.advertised(address))}"

    def _place(self, address: Address) -> int:
        place = self._places.get(address)
        if place is None:
            place = self._places[address] = len(self._places)
            self.on_new(*self._new(address))
        return place

    def _new(self, address: Address) -> tuple[str, str, Listener]:
        place, name = self._places[address], shown(address)
        port = self._config.first_node_port + place
        # The name carries the broker: a session of this listener is for that one unless it says otherwise.
        return f"{_FACT}{place}", name, Listener(f"broker-{name}", self._config.listen.host, port, ())


def shown(address: Address) -> str:
    """An address as it stands in URLs: IPv6 hosts in brackets."""
    return str(units.Address(*address))


def address_of(url: str) -> Address:
    """Host and port of a broker's URL or of `host:port`; of a list the first.

    :raises ValueError: if there is no host or no port to be had.
    """
    first = url.split(",", 1)[0].strip()
    parts = urlsplit(first if "://" in first else f"//{first}")
    port = parts.port or _PORTS.get(parts.scheme)
    if not parts.hostname or port is None:
        raise ValueError(f"expected host:port or a URL, got {url!r}")
    return parts.hostname, port
