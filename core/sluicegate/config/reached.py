"""What a connection to an address reaches, and whether that is a socket of this machine."""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias

Ip: TypeAlias = IPv4Address | IPv6Address


def target(address: str) -> Ip:
    """What a connection to an address reaches: the system takes 0.0.0.0 and :: for this machine.

    :raises ValueError: if it is no address.
    """
    ip = _plain(address)
    return ip_address("127.0.0.1" if ip.version == 4 else "::1") if ip.is_unspecified else ip


def leads_to(ip: Ip, bound: str, is_local: Callable[[Ip], bool] = lambda ip: False) -> bool:
    """Whether a connection reaches a socket of this machine that is bound to an address.

    :param ip: the `target` of the connection.
    :param bound: the address that the socket is bound to.
    :param is_local: whether an address other than loopback is one of this machine's; by default none is, as
        only the system knows that.
    :raises ValueError: if `bound` is no address.
    """
    own = _plain(bound)
    if ip == own:
        return True
    return own.is_unspecified and ip.version == own.version and (ip.is_loopback or is_local(ip))


def _plain(address: str) -> Ip:
    """An address; an IPv4 address that is written as IPv6 is IPv4."""
    ip = ip_address(address)
    return getattr(ip, "ipv4_mapped", None) or ip
