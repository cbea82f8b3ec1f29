"""Which clients may connect: limits in total, for one address, and for one principal."""

import math
from collections import Counter
from collections.abc import Iterable

from sluicegate.model import ConnectionEvent
from sluicegate.net.limits import Limits


class ConnectionPlaces:
    """Places of one broker's clients.

    :param limits: bounds.
    """

    def __init__(self, limits: Limits) -> None:
        self._most = limits.max_connections
        self._of_address = share_of(limits.max_connections, limits.address_share)
        self._of_principal = share_of(limits.max_connections, limits.principal_share)
        self._by_address: Counter[str] = Counter()
        self.is_overloaded = False
        """True while memory is short: no further client may connect."""

    def refusal(self, address: str, connected: int) -> ConnectionEvent | None:
        """Why a client may not connect; None if it may.

        :param address: its host.
        :param connected: the number of connected clients.
        """
        if self.is_overloaded:
            return ConnectionEvent.REFUSED_OVERLOAD
        if connected >= self._most:
            return ConnectionEvent.REFUSED
        is_used_up = self._by_address[address] >= self._of_address
        return ConnectionEvent.REFUSED_ADDRESS if is_used_up else None

    def remedy(self, refusal: ConnectionEvent) -> str:
        """The log text of a refusal, and its remedy."""
        if refusal is ConnectionEvent.REFUSED_OVERLOAD:
            return "memory is short; see the entry's overload section"
        if refusal is ConnectionEvent.REFUSED:
            return f"{self._most} clients are connected; raise max_connections"
        return (
            f"{self._of_address} clients of its address are connected; raise address_share or max_connections"
        )

    def joined(self, address: str) -> None:
        """A client has connected."""
        self._by_address[address] += 1

    def left(self, address: str) -> None:
        """A client has disconnected."""
        self._by_address[address] -= 1
        if self._by_address[address] <= 0:
            del self._by_address[address]

    def beyond_share(self, principals: Iterable[str]) -> list[int]:
        """Indexes of the clients above their principal's share; the oldest client comes first.

        :param principals: of all clients; empty where there is none.
        """
        if self._of_principal >= self._most:
            return []
        counts: Counter[str] = Counter()
        beyond = []
        for index, principal in enumerate(principals):
            if principal:
                counts[principal] += 1
                if counts[principal] > self._of_principal:
                    beyond.append(index)
        return beyond


def share_of(count: int, share: float) -> int:
    """A share of places, at least one; rounded up, so that a small share still admits a client."""
    return max(1, math.ceil(count * share))
