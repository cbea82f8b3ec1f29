"""Addresses of brokers as the file names them, with `*` for any characters."""

from collections.abc import Iterable

from sluicegate.config.units import Address
from sluicegate.model import Glob


class AddressPatterns:
    """Addresses as `host:port`, with `*` for any characters; upper and lower case are the same.

    :param patterns: as in the file; IPv6 hosts in brackets.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._globs = [Glob(pattern.lower()) for pattern in patterns]

    def match(self, host: str, port: int) -> bool:
        """Whether one of them matches an address."""
        address = str(Address(host, port)).lower()
        return any(glob.matches(address) for glob in self._globs)
