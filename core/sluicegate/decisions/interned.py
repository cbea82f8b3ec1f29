"""Interns strings as ids. A spool defines an id once, in the line that first uses it.

The hot path looks nothing up: a row has references to the strings of its connection and to its gate, which
exist once in memory. The log's writer converts them to ids, column by column.
"""

from array import array
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeAlias

TABLES = {
    "topic": ("topic", "namespace", "policy_version"),
    "operation": ("operation",),
    "principal": ("principal",),
    "client": ("client",),
    "subscription": ("subscription",),
    "action": ("action",),
    "policy": ("policy", "level", "reason"),
}
"""The columns of each table. Columns that depend on the same topic or policy share one id."""

EMPTY_IS_NULL = frozenset(("client", "subscription"))
"""Tables in which an empty string means null."""

LIMIT = 60_000
"""Entries of a table after which all tables of the spool are cleared. Ids have 16 bits, which leaves room for
the entries of one more batch."""

ADDITIONS, CLEARED = "new", "anew"
"""Keys of a line: the entries that it adds to each table with their first id, and whether it first clears all
tables."""

Ids: TypeAlias = "int | array[int]"
"""One id for all rows, or one for each."""


class _Table(dict[Any, int]):
    """Ids by entry; a new entry gets the next id."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[Any] = []
        """Entries that are not in the spool yet."""

    def __missing__(self, key: Hashable) -> int:
        if not isinstance(key, str | tuple | None):
            # Readers could not decode this line or later ones.
            raise TypeError(f"{type(key).__name__} is not a string")
        number = self[key] = len(self)
        self.new.append(key)
        return number


class Interned:
    """The tables of one spool; used by the log's writer thread only."""

    def __init__(self) -> None:
        self._tables = {name: _Table() for name in TABLES}
        self._cleared = False

    def __len__(self) -> int:
        """Number of entries in all tables."""
        return sum(map(len, self._tables.values()))

    def make_room(self) -> None:
        """Clear all tables if one is full. Called before each batch."""
        if any(len(table) >= LIMIT for table in self._tables.values()):
            self._tables = {name: _Table() for name in TABLES}
            self._cleared = True

    def ids(self, name: str, values: Sequence[Hashable]) -> Ids:
        """Look up the ids of a column's values, at least one.

        :raises TypeError: if a value is not a string, tuple or None.
        """
        table, first = self._tables[name], values[0]
        if values[-1] == first and values.count(first) == len(values):
            return table[first]
        return array("H", list(map(table.__getitem__, values)))

    def ids_of(self, name: str, entries: Mapping[Any, Hashable], keys: Sequence[Any]) -> Ids:
        """Look up the ids of a column whose values derive from a few distinct keys.

        :param entries: entry by key; each is looked up once.
        :param keys: the keys of the rows.
        """
        table = self._tables[name]
        known = {key: table[entry] for key, entry in entries.items()}
        return known[keys[0]] if len(known) == 1 else array("H", [known[key] for key in keys])

    def additions(self) -> dict[str, Any]:
        """The new entries, which the next line must include."""
        new = {}
        for name, table in self._tables.items():
            if table.new:
                entries = [key or None for key in table.new] if name in EMPTY_IS_NULL else table.new
                new[name] = (len(table) - len(table.new), entries)
        return {**({CLEARED: True} if self._cleared else {}), **({ADDITIONS: new} if new else {})}

    def written(self) -> None:
        """Confirm that the line with the additions is in the spool."""
        self._cleared = False
        for table in self._tables.values():
            if table.new:
                table.new = []

    def undo(self) -> None:
        """Remove the additions, because their line will not be written."""
        for table in self._tables.values():
            for key in table.new:
                del table[key]
            table.new = []
