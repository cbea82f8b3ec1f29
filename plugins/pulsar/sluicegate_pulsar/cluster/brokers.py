"""The brokers of a cluster, by the addresses that lookups and the admin API name."""

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from sluicegate.broker.broker_ports import Address, BrokerPorts, shown
from sluicegate_pulsar.config import PulsarConfig

_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651, "http": 80, "https": 443}


class Brokers(BrokerPorts):
    """The known brokers: those that the operator names, and those that the admin API lists.

    :param config: of the cluster.
    :param facts: what was stored before (`on_new`'s keys and values).
    """

    def __init__(self, config: PulsarConfig, facts: Mapping[str, str]) -> None:
        super().__init__(config, facts, address_of)
        self._ports = {port for _, port in config.addresses}
        self._hosts: set[str] = set()
        self._opens_ports = config.opens_ports_of_brokers

    def listed(self, hosts: Iterable[str]) -> None:
        """Add the hosts that the admin API lists."""
        for host in sorted({each.lower() for each in hosts} - self._hosts):
            self._hosts.add(host)
            for port in self._ports:
                self.met((host, port))

    def met(self, address: Address) -> None:
        """Open the gateway's port for a known broker, if the web listener may have to name it."""
        if self._opens_ports:
            self.port_of(shown(address))

    def is_known(self, address: Address) -> bool:
        """Whether clients may be sent to a broker; one that is listed must have a port of `bootstrap`."""
        host, port = address[0].lower(), address[1]
        return (host in self._hosts and port in self._ports) or super().is_known((host, port))

    def is_known_host(self, address: Address) -> bool:
        """Whether a web address is at a known broker's host: brokers are known by their binary ports."""
        host, port = address
        return any(self.is_known((host, each)) for each in {port, *self._ports})

    def translate(self, url: str, *, tls: bool) -> str | None:
        """The gateway's URL in place of a broker's; None if the broker is not known.

        :param url: `pulsar://host:port` or the same with `+ssl`.
        :param tls: whether clients speak TLS with the gateway.
        """
        address = self.port_of(url)
        return None if address is None else f"{'pulsar+ssl' if tls else 'pulsar'}://{shown(address)}"


def address_of(url: str) -> Address:
    """Host and port of a broker's URL or of `host:port`; of a list the first.

    :raises ValueError: if there is no host or no port.
    """
    first = url.split(",", 1)[0].strip()
    parts = urlsplit(first if "://" in first else f"//{first}")
    port = parts.port or _PORTS.get(parts.scheme)
    if not parts.hostname or port is None:
        raise ValueError(f"expected host:port or a URL, got {url!r}")
    return parts.hostname, port
