"""Layouts of messages as tables, and the walk that reads by them; for messages off the hot path.

A table names a message's fields in their order. OffsetCommit's response:
`throttle_ms 3+ i32, topics* [topic* string, partitions* [index i32, error* i16]]`.

| part | meaning |
|---|---|
| `name` | skip the value |
| `name*` | keep the value |
| `3+` or `0-7` | the versions that have the field; without it, all |
| `i8` `i16` `u16` `i32` `i64` `uuid` | a number, or the 16 bytes of an id |
| `string` `string?` `bytes` `i32s` `tags` | compact in flexible versions; `string?` and `bytes` may be null |
| `@` | no field: keep the offset of what follows |
| `[...]` | a list with the fields of an entry; tagged fields at an entry's end are skipped |
| `?[...]` | likewise, and it may be null, which is read as an empty one |
| `[...]@` | also keep the offset where an entry ends |
| `4x[...]` | an entry takes as much of a slice as four others |
"""

import re
import struct
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

from sluicegate_kafka.codec.api_keys import NEVER
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.primitives import MALFORMED, Cursor
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE, Slices, at_once

_Read: TypeAlias = Callable[[Cursor], object]
_Step: TypeAlias = Callable[[Cursor, list[Any]], object]
"""Reads on; adds what is kept to the list."""
_Make: TypeAlias = Mapping[str, Callable[..., object]]

_FIXED: Final = {"i8": "b", "i16": "h", "u16": "H", "i32": "i", "i64": "q", "uuid": "16s"}
_READ: Final[Mapping[str, _Read]] = {
    "string": Cursor.string,
    "string?": Cursor.nullable_string,
    "bytes": Cursor.byte_string,
    "i32s": lambda cursor: cursor.i32s(cursor.array_length()),
    "tags": Cursor.tags,
    "@": attrgetter("at"),
}
_SKIP: Final[Mapping[str, _Read]] = {**_READ, "i32s": lambda cursor: cursor.skip(4 * cursor.array_length())}
_FIELD: Final = re.compile(r"(\w+)(\*?) (?:(\d+)(?:\+|-(\d+)) )?(?:(\d+)x(?=\[))?(\??\[|[\w?@]+)")


class _Field(NamedTuple):
    """A field as its table has it."""

    name: str
    is_kept: bool
    versions: range
    weight: int
    kind: str
    entry: "tuple[_Field, ...]"


class _List(NamedTuple):
    """A list in one version."""

    name: str
    is_kept: bool
    weight: int
    length: Callable[[Cursor], int]
    parts: "list[_Part]"


_Part: TypeAlias = _Step | _List


class Reader:
    """Reads messages of one layout.

    :param table: its fields, up to the last that is needed.
    :raises ValueError: when the table is malformed.
    """

    def __init__(self, table: str) -> None:
        fields, rest = _parsed(table.replace("]", ", tags tags]").replace("]@", ", end @]"))
        if rest:
            raise ValueError(f"no field of a layout: {rest!r}")
        self._parts = cache(lambda version: _compiled(fields, version))

    def read(self, cursor: Cursor, version: int, **make: Callable[..., object]) -> list[Any]:
        """As `slices`, without a pause."""
        return at_once(self.slices(cursor, version, **make))

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
        try:
            for part in self._parts(version):
                if isinstance(part, _List):
                    elements = yield from _elements(part, cursor, make, done)
                    if part.is_kept:
                        kept.append(elements)
                else:
                    part(cursor, kept)
        except MALFORMED as error:
            raise ProtocolError(f"truncated or garbled: {error}") from error
        return kept


def _parsed(table: str) -> tuple[tuple[_Field, ...], str]:
    """The fields of a message or an entry, and the rest of the table after them."""
    fields: list[_Field] = []
    while True:
        match = _FIELD.match(table)
        if not match:
            raise ValueError(f"no field of a layout: {table!r}")
        name, star, since, until, weight, kind = match.groups()
        rest = table[match.end() :]
        entry: tuple[_Field, ...] = ()
        if kind.endswith("["):
            entry, rest = _parsed(rest)
            if not rest.startswith("]"):
                raise ValueError(f"{name} has no end: {table!r}")
            rest = rest[1:]
        elif kind not in _FIXED and kind not in _READ:
            raise ValueError(f"{name} is of an unknown kind: {kind!r}")
        versions = range(int(since or 0), int(until or NEVER) + 1)
        fields.append(_Field(name, bool(star) or kind == "@", versions, int(weight or 1), kind, entry))
        if not rest.startswith(", "):
            return tuple(fields), rest
        table = rest[2:]


def _compiled(fields: Iterable[_Field], version: int) -> list[_Part]:
    """The parts of a message or an entry; fields of fixed size that stand together are one step."""
    parts: list[_Part] = []
    wanted = [field for field in fields if field.is_kept or version in field.versions]
    for is_fixed, run in groupby(wanted, lambda field: field.kind in _FIXED and version in field.versions):
        if is_fixed:
            parts.append(_fixed(run))
        else:
            parts += [_part(field, version) for field in run]
    return parts


def _part(field: _Field, version: int) -> _Part:
    """A list, or the step of a field that has no fixed size or is absent."""
    if version not in field.versions:
        return lambda cursor, kept: kept.append(None)
    if field.kind.endswith("["):
        length = Cursor.array_length if field.kind == "[" else Cursor.nullable_array_length
        return _List(field.name, field.is_kept, field.weight, length, _compiled(field.entry, version))
    if not field.is_kept:
        skip = _SKIP[field.kind]
        return lambda cursor, kept: skip(cursor)
    read = _READ[field.kind]
    return lambda cursor, kept: kept.append(read(cursor))


def _fixed(fields: Iterable[_Field]) -> _Step:
    """One step for fields of fixed size that stand together."""
    codes = [_FIXED[f.kind] if f.is_kept else f"{struct.calcsize(_FIXED[f.kind])}x" for f in fields]
    packed = struct.Struct(">" + "".join(codes))
    unpack, size = packed.unpack_from, packed.size

    def step(cursor: Cursor, kept: list[Any]) -> None:
        kept += unpack(cursor.buffer, cursor.at)
        cursor.at += size

    return step


def _elements(listed: _List, cursor: Cursor, make: _Make, done: list[int]) -> Slices[list[object]]:
    """The elements of a list.

    :param done: how much of the slice, as its only element.
    """
    name, is_kept, weight, length, parts = listed
    make_element = make.get(name)
    elements: list[object] = []
    for _ in range(length(cursor)):
        done[0] += weight
        if done[0] >= ENTRIES_PER_SLICE:
            done[0] = 0
            yield
        kept: list[Any] = []
        for part in parts:  # as in `slices`, without one more generator for each entry
            if isinstance(part, _List):
                inner = yield from _elements(part, cursor, make, done)
                if part.is_kept:
                    kept.append(inner)
            else:
                part(cursor, kept)
        if make_element is not None:
            if (element := make_element(*kept)) is not None:
                elements.append(element)
        elif is_kept:
            elements.append(kept[0] if len(kept) == 1 else tuple(kept))
    return elements
