"""Addresses of brokers as the file names them, with `*` for any characters."""

import re
from collections.abc import Iterable

from sluicegate.config.units import Address


class AddressPatterns:
    """Addresses as `host:port`, with `*` for any characters; upper and lower case are the same.

    :param patterns: as in the file; IPv6 hosts in brackets.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = [
            re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.IGNORECASE)
            for pattern in patterns
        ]

    def match(self, host: str, port: int) -> bool:
        """Whether one of them matches an address."""
        address = str(Address(host, port))
        return any(pattern.fullmatch(address) for pattern in self._patterns)
