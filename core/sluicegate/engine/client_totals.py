"""What each client has sent and received: running totals by principal and client id, in bounded memory."""

from collections.abc import Iterator

from sluicegate.model import Operation, shortened

MOST = 10_000
"""Pairs of principal and client id that are told apart; all others are counted together, without a name."""
_LONGEST = 250
"""Characters of a name to keep: clients choose their own."""


class ClientTotals:
    """Totals of one client id of one principal; they never fall, except for `held`.

    :param principal: as operations have it; the same object, so that an operation is compared by identity.
    :param client_id: without the address.
    """

    __slots__ = (
        "client_id",
        "delayed",
        "dispatched_bytes",
        "dispatched_messages",
        "held",
        "name",
        "principal",
        "published_bytes",
        "published_messages",
        "refused",
    )

    def __init__(self, principal: str | None, client_id: str, name: str = "") -> None:
        self.principal = principal
        """None once the registry has dropped it: operations that still hold it look for another one."""
        self.client_id = client_id
        self.name = name
        """The principal's name, in at most 250 characters."""
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


COUNTS = (
    "published_messages",
    "published_bytes",
    "dispatched_messages",
    "dispatched_bytes",
    "refused",
    "delayed",
)


class Clients:
    """The totals of all clients of one broker.

    :param most: how many pairs of principal and client id have totals of their own.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._totals: dict[tuple[str, str], ClientTotals] = {}
        self._rest = ClientTotals(None, "")

    def __len__(self) -> int:
        return len(self._totals)

    def __iter__(self) -> Iterator[ClientTotals]:
        """All totals, those of the rest last."""
        yield from tuple(self._totals.values())
        yield self._rest

    def of(self, op: Operation) -> ClientTotals:
        """The totals of an operation's client. The operation keeps them, until its principal changes.

        A client that changes its client id on the way keeps counting under the first one.
        """
        if op.totals.principal is op.principal:
            kept: ClientTotals = op.totals
            return kept
        client_id, _ = split_client(op.client)
        key = (shortened(op.principal, _LONGEST), shortened(client_id, _LONGEST))
        found = self._totals.get(key)
        if found is None:
            if len(self._totals) >= self._most:
                return self._rest  # not kept: there may be room at the next operation
            found = self._totals[key] = ClientTotals(op.principal, key[1], key[0])
        elif found.principal is not op.principal and found.principal == op.principal:
            op.principal = found.principal  # the same object: compared by identity from now on
        op.totals = found
        return found

    def drop(self, totals: ClientTotals) -> None:
        """Forget totals that are accounted for; an operation that still holds them gets new ones."""
        if self._totals.pop((totals.name, totals.client_id), None) is not None:
            totals.principal = None


def split_client(client: str) -> tuple[str, str]:
    """Client id and address of `Operation.client`; the host stands for the id of a client without one."""
    client_id, _, address = client.rpartition("@")
    return client_id or address.rpartition(":")[0] or address, address
