"""Which addresses the gateway does not connect to, whatever brokers say."""

import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import ip_address

from sluicegate.config.models import BrokerConfig
from sluicegate.config.reached import Ip, leads_to, target
from sluicegate.net.reachability import Endpoint

_OWN = "it is a listener of this gateway itself; brokers must advertise addresses of their own"
_LINK_LOCAL = "it is a link-local address; name it in 'bootstrap' if a broker is there"
_LOOPBACK = "it is a loopback address, and 'bootstrap' is elsewhere; name it there if a broker is there"


class DialRule:
    """The rule for one broker's entry.

    Brokers name each other's addresses, and clients' bytes go there. So the gateway does not connect to what
    only its own machine reaches: link-local addresses, and loopback unless the entry has brokers there. Nor
    to itself: it would apply its policies twice, or connect to itself without end. An address that the entry
    writes out may be anywhere but at the gateway.

    :param config: the broker's entry.
    :param listening: gives host and port of each listener that is open.
    """

    def __init__(self, config: BrokerConfig, listening: Callable[[], Iterable[Endpoint]]) -> None:
        self._config = config
        self._listening = listening
        self._is_loopback = False
        """True once an address that the entry writes out was resolved to loopback."""

    def refusal(self, address: Endpoint, resolved: str) -> str:
        """Why an address is not connected to; empty if it is.

        :param address: host and port as they were named.
        :param resolved: an address of that host.
        """
        ip = target(resolved)
        is_written_out = self._config.writes_out(*address)
        if self._is_own(address, ip, is_written_out=is_written_out):
            return _OWN
        if is_written_out:
            self._is_loopback |= ip.is_loopback
        elif ip.is_link_local:
            return _LINK_LOCAL
        elif ip.is_loopback and not self._is_loopback:
            return _LOOPBACK
        return ""

    def _is_own(self, address: Endpoint, ip: Ip, *, is_written_out: bool) -> bool:
        host, port = address
        own = [bound for bound, bound_port in self._listening() if bound_port == port]
        if own and not is_written_out and host.lower() == self._config.client_host.lower():
            return True  # clients come to it, so it leads here even if by way of a load balancer
        return any(leads_to(ip, bound, _is_local) for bound in own)


def _is_local(ip: Ip) -> bool:
    """Whether an address is one of this machine's."""
    family = socket.AF_INET6 if ip.version == 6 else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        # Sends nothing: the kernel chooses the source, which for an address of this machine is that address.
        probe.connect((str(ip), 9))
        return ip_address(str(probe.getsockname()[0])) == ip
    return False
