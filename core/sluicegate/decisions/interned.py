"""Ids in place of texts: each spool says once what an id stands for, in the line that first uses it.

On the path of messages nothing is looked up: a row holds references to the texts of its connection and to its
gate, which Python keeps once, and the log's writer turns them into ids, column by column.
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
"""The columns that ids of each table stand for; what is the same for a topic or a policy is one id."""

EMPTY_IS_NULL = frozenset(("client", "subscription"))
"""Tables whose empty text means that there is none."""

LIMIT = 60_000
"""Entries of a table after which all begin anew, in the same spool. A batch of rows may add to it: ids have
16 bits."""

ADDITIONS, ANEW = "new", "anew"
"""Keys of a line: the first id and the entries that it adds to each table, and whether all tables are emptied
before."""

Ids: TypeAlias = "int | array[int]"
"""The id of all rows, or one for each."""


class _Table(dict[Any, int]):
    """Ids by what they stand for; what is not there yet gets the next."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[Any] = []
        """What the spool does not know yet."""

    def __missing__(self, key: Hashable) -> int:
        if not isinstance(key, str | tuple | None):
            # Readers could not make a column of it, nor of what later lines say.
            raise TypeError(f"{type(key).__name__} is no text")
        number = self[key] = len(self)
        self.new.append(key)
        return number


class Interned:
    """The tables of one spool; used by the log's writer thread only."""

    def __init__(self) -> None:
        self._tables = {name: _Table() for name in TABLES}
        self._anew = False

    def __len__(self) -> int:
        """Entries of all tables."""
        return sum(map(len, self._tables.values()))

    def make_room(self) -> None:
        """Clear all tables if one is full; call it before a batch."""
        if any(len(table) >= LIMIT for table in self._tables.values()):
            self._tables = {name: _Table() for name in TABLES}
            self._anew = True

    def ids(self, name: str, values: Sequence[Hashable]) -> Ids:
        """Give the ids of a column's values, at least one.

        :raises TypeError: if a value cannot be looked up.
        """
        table, first = self._tables[name], values[0]
        if values[-1] == first and values.count(first) == len(values):
            return table[first]
        return array("H", list(map(table.__getitem__, values)))

    def ids_of(self, name: str, entries: Mapping[Any, Hashable], keys: Sequence[Any]) -> Ids:
        """Give the ids of a column whose values are known by fewer keys.

        :param entries: value by key; each value is looked up once.
        :param keys: the keys of the rows.
        """
        table = self._tables[name]
        known = {key: table[entry] for key, entry in entries.items()}
        return known[keys[0]] if len(known) == 1 else array("H", [known[key] for key in keys])

    def additions(self) -> dict[str, Any]:
        """What the next line has to say besides its columns."""
        new = {}
        for name, table in self._tables.items():
            if table.new:
                entries = [key or None for key in table.new] if name in EMPTY_IS_NULL else table.new
                new[name] = (len(table) - len(table.new), entries)
        return {**({ANEW: True} if self._anew else {}), **({ADDITIONS: new} if new else {})}

    def written(self) -> None:
        """The line with the additions is in the spool."""
        self._anew = False
        for table in self._tables.values():
            if table.new:
                table.new = []

    def undo(self) -> None:
        """No such line will be written: forget what it would have added."""
        for table in self._tables.values():
            for key in table.new:
                del table[key]
            table.new = []
