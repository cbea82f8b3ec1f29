"""Holds the ends of transactions, which must not overtake messages that wait in the gateway.

Most clients await receipts before they end a transaction; others must not lose messages.
"""

from collections import Counter
from typing import TypeAlias

Txn: TypeAlias = tuple[int, int]
"""Most and least significant bits of a transaction's id."""


class Transactions:
    """Transactions of one connection with waiting messages."""

    __slots__ = ("_ends", "_waiting")

    def __init__(self) -> None:
        self._waiting: Counter[Txn] = Counter()
        self._ends: dict[Txn, list[bytes]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, txn: Txn) -> bool:
        return txn in self._waiting

    def waits(self, txn: Txn) -> None:
        """Count one more waiting message of a transaction."""
        self._waiting[txn] += 1

    def keep(self, txn: Txn, frame: bytes) -> None:
        """Keep the end of a transaction with waiting messages."""
        self._ends.setdefault(txn, []).append(frame)

    def left(self, txn: Txn) -> list[bytes]:
        """Count one waiting message less; returns the ends that may now proceed."""
        self._waiting[txn] -= 1
        if self._waiting[txn] > 0:
            return []
        del self._waiting[txn]
        return self._ends.pop(txn, [])
