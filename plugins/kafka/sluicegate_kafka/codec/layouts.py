"""Layouts as tables, and the walk that skips, keeps or marks their fields; for messages off the hot path.

A table names fields in their order: name, versions unless all have it, kind. A star keeps the value; the kind
`@` keeps the offset where it stands. A list has the fields of an entry in brackets, behind how much of a
slice an entry takes unless it is 1; `]@` keeps the offset where an entry ends.
Example: `error* i16, reason 1+ string?, topics* 0-7 4x[topic* string, partitions_at @, partitions i32s]`.
"""

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

from sluicegate_kafka.codec.api_keys import NEVER
from sluicegate_kafka.codec.primitives import Cursor, guarded
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE, Slices, at_once, guarded_slices

_Read: TypeAlias = Callable[[Cursor], Any]
_Step: TypeAlias = tuple[_Read, int]
"""Reads on; how many values of it are kept: none, one or `_ALL` of a tuple."""
_Make: TypeAlias = Mapping[str, Callable[..., object]]

_FIXED: Final = {"i8": "b", "i16": "h", "u16": "H", "i32": "i", "i64": "q", "uuid": "16s"}
_ALL = 2
_READ: Final[Mapping[str, _Read]] = {
    "string": Cursor.string,
    "string?": Cursor.nullable_string,
    "bytes": Cursor.byte_string,
    "i32s": lambda cursor: cursor.i32s(cursor.array_length()),
    "tags": Cursor.tags,
    "@": attrgetter("at"),
}
_SKIP: Final[Mapping[str, _Read]] = {**_READ, "i32s": lambda cursor: cursor.skip(4 * cursor.array_length())}
_ABSENT: Final[_Step] = (lambda cursor: None, 1)
_FIELD = re.compile(r"(\w+)(\*?) (?:(\d+)(?:\+|-(\d+)) )?(?:(\d+)x)?([\w?@]+|\[)|\]")


class _List(NamedTuple):
    name: str
    parts: "list[_Part]"
    is_kept: bool
    weight: int


_Part: TypeAlias = list[_Step] | _List
"""A list, or all steps up to the next one."""


class Reader:
    """Reads messages of one layout.

    :param table: its fields, up to the last that is needed.
    """

    def __init__(self, table: str) -> None:
        fields = table.replace("]", ", tags tags]").replace("]@", ", end @]")
        self._parts = cache(lambda version: _compiled(_FIELD.finditer(fields), version))

    @guarded
    def read(self, cursor: Cursor, version: int, **make: Callable[..., object]) -> list[Any]:
        """As `slices`, without a pause."""
        parts = self._parts(version)
        if len(parts) == 1 and isinstance(parts[0], list):
            kept: list[Any] = []
            _add(kept, parts[0], cursor)
            return kept
        return at_once(self.slices(cursor, version, **make))

    @guarded_slices
    def slices(self, cursor: Cursor, version: int, **make: Callable[..., object]) -> Slices[list[Any]]:
        """Read one message; yields between two slices.

        :param cursor: where the message begins; it is left behind the last field.
        :param make: by name of a list: makes an element from the kept fields of an entry, or None to leave it
            out. Without one an element is a tuple of them, or the only one.
        :return: what is kept, in the table's order; None for a field that the version does not have.
        :raises ProtocolError: when it is malformed.
        """
        kept: list[Any] = []
        done = [0]
        for part in self._parts(version):
            if isinstance(part, list):
                _add(kept, part, cursor)
            else:
                elements = yield from _elements(part, cursor, make, done)
                if part.is_kept:
                    kept.append(elements)
        return kept


def _compiled(matches: Iterator[re.Match[str]], version: int) -> list[_Part]:
    """The parts of a message or an entry; fields of fixed size that stand together are one step."""
    parts: list[_Part] = []
    for kind, run in groupby(_atoms(matches, version), type):
        atoms: list[Any] = list(run)
        if kind is _List:
            parts += atoms
            continue
        steps = [_fixed("".join(atoms))] if kind is str else atoms
        if parts and isinstance(parts[-1], list):
            parts[-1] += steps
        else:
            parts.append(steps)
    return parts


def _atoms(matches: Iterator[re.Match[str]], version: int) -> Iterator[str | _Step | _List]:
    """The format of each fixed size, the steps and the lists, up to the bracket that closes the entry."""
    for match in matches:
        name, star, since, until, weight, kind = match.groups()
        if not name:
            return
        parts = _compiled(matches, version) if kind == "[" else []
        is_kept = bool(star) or kind == "@"
        if not int(since or 0) <= version <= int(until or NEVER):
            yield from [_ABSENT] * is_kept
        elif parts:
            yield _List(name, parts, is_kept, int(weight or 1))
        elif code := _FIXED.get(kind):
            yield code if is_kept else f"{struct.calcsize(code)}x"
        else:
            yield (_READ[kind], 1) if is_kept else (_SKIP[kind], 0)


def _fixed(code: str) -> _Step:
    """One step for fields of fixed size that stand together."""
    packed = struct.Struct(f">{code}")
    unpack, size = packed.unpack_from, packed.size

    def read(cursor: Cursor) -> tuple[Any, ...]:
        values = unpack(cursor.buffer, cursor.at)
        cursor.at += size
        return values

    return read, _ALL


def _add(kept: list[Any], steps: list[_Step], cursor: Cursor) -> None:
    """Read fields that stand together, and add what is kept."""
    for read, count in steps:
        value = read(cursor)
        if count == 1:
            kept.append(value)
        elif count:
            kept += value


def _elements(listed: _List, cursor: Cursor, make: _Make, done: list[int]) -> Slices[list[object]]:
    """The elements of a list.

    :param done: how much of the slice, as its only element.
    """
    name, parts, is_kept, weight = listed
    make_element = make.get(name)
    elements: list[object] = []
    for _ in range(cursor.array_length()):
        done[0] += weight
        if done[0] >= ENTRIES_PER_SLICE:
            done[0] = 0
            yield
        kept: list[Any] = []
        for part in parts:  # as in `slices`, without one more generator for each entry
            if isinstance(part, list):
                _add(kept, part, cursor)
            else:
                inner = yield from _elements(part, cursor, make, done)
                if part.is_kept:
                    kept.append(inner)
        if make_element is not None:
            if (element := make_element(*kept)) is not None:
                elements.append(element)
        elif is_kept:
            elements.append(kept[0] if len(kept) == 1 else tuple(kept))
    return elements
