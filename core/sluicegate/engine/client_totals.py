"""What each client has sent and received: running totals by principal and client id, in bounded memory."""

from collections.abc import Iterable, Iterator
from weakref import WeakSet

from sluicegate.model import Operation, shortened, split_client

MOST = 10_000
"""Pairs of principal and client id that are told apart; all others are counted together, without a name."""
_LONGEST = 250
"""Characters of a name to keep: clients choose their own."""


COUNTS = (
    "published_messages",
    "published_bytes",
    "dispatched_messages",
    "dispatched_bytes",
    "refused",
    "delayed",
)
"""The totals of a client that only grow, in this order."""


class ClientTotals:
    """Totals of one client id of one principal; they never fall, except for `held`.

    :param principal: its name, in bounded length.
    :param client_id: without the address, in bounded length.
    """

    __slots__ = (
        "__weakref__",
        "client_id",
        "counted",
        "delayed",
        "dispatched_bytes",
        "dispatched_messages",
        "held",
        "principal",
        "published_bytes",
        "published_messages",
        "refused",
    )

    def __init__(self, principal: str, client_id: str) -> None:
        self.principal = principal
        self.client_id = client_id
        self.counted: tuple[int, ...] = (0,) * len(COUNTS)
        """`counts()` as it was at the last sample."""
        self.published_messages = self.published_bytes = 0
        self.dispatched_messages = self.dispatched_bytes = 0
        self.refused = 0
        """Operations refused or dropped."""
        self.delayed = 0
        """Operations that were held, each counted when it was first held."""
        self.held = 0
        """Operations held now."""

    def counts(self) -> tuple[int, ...]:
        """The totals, in the order of `COUNTS`."""
        return (
            self.published_messages,
            self.published_bytes,
            self.dispatched_messages,
            self.dispatched_bytes,
            self.refused,
            self.delayed,
        )


class Clients:
    """The totals of all clients of one broker.

    :param most: how many pairs of principal and client id have totals of their own.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._totals: dict[tuple[str, str], ClientTotals] = {}
        self._by_connection: dict[tuple[str, str], ClientTotals] = {}
        """By principal and client with its address: some protocols have a new operation for each request."""
        self._idle: WeakSet[ClientTotals] = WeakSet()
        self._rest = ClientTotals("", "")

    def __len__(self) -> int:
        return len(self._totals)

    def __iter__(self) -> Iterator[ClientTotals]:
        """All totals that an operation may count in, those of the rest last."""
        yield from self.kept()
        yield from tuple(self._idle)
        yield self._rest

    def kept(self) -> tuple[ClientTotals, ...]:
        """The totals that new operations of their clients find."""
        return tuple(self._totals.values())

    def of(self, op: Operation) -> ClientTotals:
        """The totals of an operation's client, which the operation keeps.

        A session makes an operation, or counts in it, only once its principal is accepted. A client that
        changes its client id on the way counts under the first one.
        """
        kept: ClientTotals | None = op.totals
        if kept is not None:
            return kept
        whole = op.principal, op.client
        totals = self._by_connection.get(whole)
        if totals is None:
            key = shortened(op.principal, _LONGEST), shortened(split_client(op.client)[0], _LONGEST)
            totals = self._totals.get(key)
            if totals is None:
                if len(self._totals) >= self._most:
                    return self._rest  # not kept: there may be room at the next operation
                totals = self._totals[key] = ClientTotals(*key)
            if len(self._by_connection) >= self._most:
                self._by_connection.clear()
            self._by_connection[whole] = totals
        op.totals = totals
        return totals

    def make_room(self, idle: Iterable[ClientTotals]) -> None:
        """Forget idle totals once no operation holds them any more; one that does may go on counting."""
        for totals in idle:
            if self._totals.pop((totals.principal, totals.client_id), None) is not None:
                self._idle.add(totals)
        self._by_connection.clear()
