"""Decodes the lines of a spool into Arrow tables."""

import functools
from binascii import a2b_base64
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate.decisions.interned import ADDITIONS, CLEARED, TABLES
from sluicegate.decisions.rows import Batch
from sluicegate.decisions.schema import SCHEMA

_PACKED = {"q": pa.int64(), "H": pa.uint16()}
_TABLE_OF = {column: name for name, columns in TABLES.items() for column in columns}
_MEMBER = {column: index for columns in TABLES.values() for index, column in enumerate(columns)}
_CONSTANTS = ("run", "system", "door", "gateway", "host")
_VARYING = tuple(field for field in SCHEMA if field.name not in _CONSTANTS)
_TIMES = SCHEMA.field("time").type
_FEW = 1_024
"""Size of a dictionary from which unused entries are removed."""


def _dictionary_field(field: pa.Field) -> pa.Field:
    coded = field.type == pa.string() and (field.name in _TABLE_OF or field.name in _CONSTANTS)
    return field.with_type(pa.dictionary(pa.int32(), pa.string())) if coded else field


CODED_SCHEMA = pa.schema([_dictionary_field(field) for field in SCHEMA], metadata=SCHEMA.metadata)
"""The schema with dictionaries instead of repeated strings, which makes writing faster."""


class Unpacking:
    """Decodes the lines of one spool in order, because later lines use ids that earlier ones define."""

    def __init__(self) -> None:
        self.rows = 0
        """Rows added but not taken yet."""
        self._parts: list[tuple[int, dict[str, Any]]] = []
        """For each line its number of rows and its columns, each an array or a single value for all rows."""
        self._tables = _no_entries()
        self._constants: dict[str, pa.Array] = {}
        self._plain = False
        """Whether the spool has form 1, with strings instead of ids."""

    def add(self, batch: Batch) -> None:
        """Add the rows of a line, all or none.

        :param batch: the line, including the constants of the file. If it has `CLEARED`, the caller must
            first take the rows of earlier lines, because their ids are discarded.
        :raises pa.ArrowException, KeyError, TypeError, ValueError, OverflowError, IndexError: if it is
            damaged.
        """
        if batch.get(CLEARED):
            self._tables = _no_entries()
        self._plain = "offset" not in batch
        self._learn(batch.get(ADDITIONS, {}))
        times = _times(batch)
        count = len(times)
        constants = {name: pa.array([batch.get(name)], pa.string()) for name in _CONSTANTS}
        for name, values in constants.items():
            _check_nulls(SCHEMA.field(name), values)
        part = {"time": times, "decision_cost": _costs(batch, count)}
        for field in _VARYING:
            if field.name not in part:
                part[field.name] = self._column(field, batch, count)
        self._constants = constants
        self._parts.append((count, part))
        self.rows += count

    def take(self) -> pa.Table:
        """Return the rows added since the last call, in `CODED_SCHEMA`."""
        parts, rows = self._parts, self.rows
        self._parts, self.rows = [], 0
        columns = []
        for field in CODED_SCHEMA:
            if field.name in _CONSTANTS:
                # Spools of version 1 name no host; Parquet takes no null in a dictionary.
                known = self._constants[field.name].drop_null()
                index = _repeated(pa.int32(), 0 if len(known) else None, rows)
                columns.append(pa.DictionaryArray.from_arrays(index, known))
                continue
            column = self._joined(field.name, parts, rows)
            columns.append(self._coded(field.name, column) if field.name in _TABLE_OF else column)
        return pa.Table.from_arrays(columns, schema=CODED_SCHEMA)

    def _learn(self, additions: Mapping[str, tuple[int, Sequence[Any]]]) -> None:
        for name, (first, entries) in additions.items():
            known = self._tables[name]
            if first != len(known[0]):  # a damaged line defined those in between
                raise ValueError(f"ids of {name!r} from {len(known[0])} to {first} are not known")
            parts = zip(*entries, strict=True) if len(known) > 1 else (entries,)
            added = [pa.array(values, column.type) for column, values in zip(known, parts, strict=True)]
            for column, values in zip(TABLES[name], added, strict=True):
                _check_nulls(SCHEMA.field(column), values)
            self._tables[name] = tuple(
                pa.concat_arrays([column, values]) for column, values in zip(known, added, strict=True)
            )

    def _column(self, field: pa.Field, batch: Batch, count: int) -> Any:
        """A column's values or ids; a single one if all rows have the same."""
        name = _TABLE_OF.get(field.name)
        if name is None or self._plain:
            return _values(field, batch.get(field.name), count)
        ids = batch.get(name)
        if ids is None:  # a window's principal, client and policy
            return _checked(field, None)
        indices = _unpacked(ids, count) if isinstance(ids, dict) else ids
        highest = pc.max(indices).as_py() if isinstance(ids, dict) else ids
        if not 0 <= highest < len(self._tables[name][0]):
            raise IndexError(f"id {highest} of {name!r} is not known")
        return indices

    def _joined(self, name: str, parts: Sequence[tuple[int, dict[str, Any]]], rows: int) -> pa.Array:
        kind = pa.uint16() if name in _TABLE_OF and not self._plain else SCHEMA.field(name).type
        values = [part[name] for _, part in parts]
        first = values[0]
        if not isinstance(first, pa.Array) and values.count(first) == len(values):
            return _repeated(kind, first, rows)
        return pa.concat_arrays(
            [
                value if isinstance(value, pa.Array) else _repeated(kind, value, count)
                for value, (count, _) in zip(values, parts, strict=True)
            ]
        )

    def _coded(self, column: str, indices: pa.Array) -> pa.Array:
        if self._plain:
            return indices.dictionary_encode() if indices.type == pa.string() else indices
        table = self._tables[_TABLE_OF[column]][_MEMBER[column]]
        if table.type != pa.string():
            return table.take(indices)
        if len(table) > _FEW:
            used = pc.unique(indices.drop_null())
            table, indices = table.take(used), pc.index_in(indices, used)
        texts = table.drop_null().unique()  # nulls of the table must become nulls of the indices
        return pa.DictionaryArray.from_arrays(pc.index_in(table, texts).take(indices), texts)


def _no_entries() -> dict[str, tuple[pa.Array, ...]]:
    return {
        name: tuple(pa.array([], SCHEMA.field(column).type) for column in columns)
        for name, columns in TABLES.items()
    }


def _check_nulls(field: pa.Field, column: pa.Array) -> None:
    if column.null_count and not field.nullable:
        raise ValueError(f"column {field.name!r} has nulls")


@functools.lru_cache(256, typed=True)
def _checked(field: pa.Field, value: Any) -> Any:
    """A value that all rows of a line have, after checking that it fits its column."""
    _check_nulls(field, _repeated(field.type, value, 1))
    return value


def _times(batch: Batch) -> pa.Array:
    times = batch["time"]
    if isinstance(times, list):  # form 1: us since 1970
        return pa.array(times, _TIMES)
    since_1970_ns = pc.add(_unpacked(times), batch["offset"])
    return pc.divide(since_1970_ns, 1_000).cast(_TIMES)


def _costs(batch: Batch, count: int) -> Any:
    """The column `decision_cost`, with values for the few timed rows."""
    if not batch.get("costs"):
        return _values(SCHEMA.field("decision_cost"), batch.get("decision_cost"), count)
    values: list[int | None] = [None] * count
    for index, cost_ns in batch["costs"]:
        values[index] = cost_ns
    return pa.array(values, pa.int64())


def _values(field: pa.Field, values: Any, count: int) -> Any:
    if isinstance(values, dict):
        return _unpacked(values, count).cast(field.type)
    if not isinstance(values, list):
        return _checked(field, values)
    if len(values) != count:
        raise ValueError(f"column {field.name!r} has {len(values)} values for {count} rows")
    column = pa.array(values, field.type)
    _check_nulls(field, column)
    return column


def _repeated(kind: pa.DataType, value: Any, count: int) -> pa.Array:
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)


def _unpacked(packed: Mapping[str, str], count: int | None = None) -> pa.Array:
    [(code, text)] = packed.items()  # raises unless there is exactly one
    kind = _PACKED[code]
    content = a2b_base64(text)
    numbers = pa.Array.from_buffers(kind, len(content) * 8 // kind.bit_width, [None, pa.py_buffer(content)])
    if count is not None and len(numbers) != count:
        raise ValueError(f"{len(numbers)} packed numbers for {count} rows")
    return numbers
