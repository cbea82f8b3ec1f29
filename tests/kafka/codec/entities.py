"""Random Kafka messages, written and read by kio from Kafka's own schemas: the oracle of these tests."""

import datetime
import io
import uuid
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from itertools import count, cycle
from types import NoneType
from typing import Any, get_args, get_origin

from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.records.schema import NewRecordBatch, Record, RecordHeader
from kio.records.writers import write_batch
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i8, i16, i32, i64

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MADE: dict[tuple[type[Any], bool], st.SearchStrategy[Any]] = {}
_LONG = st.text("abcXYZ-._09", min_size=130, max_size=150)
_NAMES = st.one_of(st.text(max_size=8), st.text(max_size=8), st.text(max_size=8), _LONG)


def _integers(bits: int, signed: bool = True) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.integers(low, high)


_BY_KIND: dict[str, st.SearchStrategy[Any]] = {
    "int8": _integers(8),
    "int16": _integers(16),
    "int32": _integers(32),
    "int64": _integers(64),
    "uint16": _integers(16, signed=False),
    "string": _NAMES,
    "bytes": st.binary(max_size=40),
    "uuid": st.uuids(),
    "bool": st.booleans(),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": _integers(32).map(lambda ms: datetime.timedelta(milliseconds=ms)),
    "timedelta_i64": st.integers(-1, 2**40).map(lambda ms: datetime.timedelta(milliseconds=ms)),
    "datetime_i64": st.integers(0, 2**40).map(lambda ms: _EPOCH + datetime.timedelta(milliseconds=ms)),
}


def entities(schema: type[Any], batches: bool = False) -> st.SearchStrategy[Any]:
    """Any message of a schema.

    :param batches: whether records are whole batches; else they are any bytes.
    """
    made = _MADE.get((schema, batches))
    if made is None:
        kinds = {**_BY_KIND, "records": RECORD_SETS if batches else st.binary(max_size=200)}
        made = _MADE[schema, batches] = _entities(schema, kinds)
    return made


def _entities(schema: type[Any], kinds: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    made = {each.name: _values(each.type, each.metadata.get("kafka_type"), kinds) for each in fields(schema)}
    return st.builds(schema, **made)


def _values(kind: Any, name: str | None, kinds: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    options = [each for each in get_args(kind) if each is not NoneType]
    if get_origin(kind) is tuple:
        return st.lists(_values(options[0], name, kinds), max_size=2).map(tuple)
    if NoneType in get_args(kind):
        return st.none() | _values(options[0], name, kinds)
    return kinds[name] if name else _entities(kind, kinds)


_NTH: dict[str, Callable[[int], Any]] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint16"), int),
    "string": lambda nth: f"s{nth}",
    "bytes": lambda nth: b"b" * nth,
    "records": lambda nth: b"r" * nth,
    "uuid": lambda nth: uuid.UUID(int=nth),
    "bool": lambda nth: nth % 2 == 1,
    "timedelta_i32": lambda nth: datetime.timedelta(milliseconds=nth),
    "timedelta_i64": lambda nth: datetime.timedelta(milliseconds=nth),
    "datetime_i64": lambda nth: _EPOCH + datetime.timedelta(milliseconds=nth),
}


def full(schema: type[Any]) -> Any:
    """The same message each time: no number or text twice, two entries in each list, each second error 0."""
    return _full(schema, None, count(1), cycle((ErrorCode(0), ErrorCode(3))))


def _full(kind: Any, name: str | None, numbers: Iterator[int], codes: Iterator[ErrorCode]) -> Any:
    options = [each for each in get_args(kind) if each is not NoneType]
    if get_origin(kind) is tuple:
        return tuple(_full(options[0], name, numbers, codes) for _ in range(2))
    if options:  # may be null, and is not
        return _full(options[0], name, numbers, codes)
    if name == "error_code":
        return next(codes)
    if name:
        return _NTH[name](next(numbers))
    kinds = {each.name: (each.type, each.metadata.get("kafka_type")) for each in fields(kind)}
    return kind(**{field: _full(*each, numbers, codes) for field, each in kinds.items()})


def write_entity(entity: Any) -> bytes:
    """The body of a message, as kio writes it."""
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def request_frame(entity: Any, correlation_id: int = 7, client_id: str | None = "client-1") -> bytes:
    """A request without its length."""
    header = type(entity).__header_schema__(
        request_api_key=i16(entity.__api_key__),
        request_api_version=i16(entity.__version__),
        correlation_id=i32(correlation_id),
        client_id=client_id,
    )
    return write_entity(header) + write_entity(entity)


def api_versions_5(cluster_id: str, node_id: int) -> bytes:
    """An ApiVersions request without its length, of a client that means one node (KIP-1242).

    kio does not know this version: two fields more than version 4, before its tagged fields.
    """
    older = request_schema(18, 4)(client_software_name="raw", client_software_version="1")
    frame = request_frame(older)
    meant = bytes([len(cluster_id) + 1]) + cluster_id.encode() + node_id.to_bytes(4, "big")
    return frame[:2] + b"\0\5" + frame[4:-1] + meant + frame[-1:]


def response_frame(entity: Any, correlation_id: int = 7) -> bytes:
    """A response without its length."""
    return write_entity(type(entity).__header_schema__(correlation_id=i32(correlation_id))) + write_entity(
        entity
    )


def decode_response(frame: bytes, api_key: int, version: int) -> tuple[int, Any]:
    """Correlation id and message of a response without its length; nothing may be left over."""
    schema = load_response_schema(api_key, version)
    header, at = entity_reader(schema.__header_schema__)(frame, 0)
    entity, size = entity_reader(schema)(frame, at)
    assert at + size == len(frame)
    return header.correlation_id, entity


def decode_framed(framed: bytes, api_key: int, version: int) -> Any:
    """The message of a response that comes with its length."""
    assert int.from_bytes(framed[:4], "big") == len(framed) - 4
    return decode_response(framed[4:], api_key, version)[1]


def decode_request(frame: bytes, api_key: int, version: int) -> Any:
    """The message of a request without its length; nothing may be left over."""
    schema = load_request_schema(api_key, version)
    _, at = entity_reader(schema.__header_schema__)(frame, 0)
    entity, size = entity_reader(schema)(frame, at)
    assert at + size == len(frame)
    return entity


@cache
def request_schema(api_key: int, version: int) -> type[Any]:
    """The schema of a request."""
    return load_request_schema(api_key, version)


@cache
def response_schema(api_key: int, version: int) -> type[Any]:
    """The schema of a response."""
    return load_response_schema(api_key, version)


def known_versions() -> Iterator[tuple[int, int]]:
    """Every API key and version that kio knows."""
    for key, name in api_key_map.items():
        for version in schema_name_map[name]:
            yield key, version


_FIELD = st.none() | st.binary(max_size=12)
_RECORDS = st.builds(
    Record,
    attributes=st.just(i8(0)),
    timestamp=st.integers(0, 2**41).map(lambda ms: _EPOCH + datetime.timedelta(milliseconds=ms)),
    offset=st.integers(0, 1000),
    key=_FIELD,
    value=_FIELD | st.binary(min_size=130, max_size=200),
    headers=st.lists(st.builds(RecordHeader, key=st.binary(max_size=5), value=_FIELD), max_size=3).map(tuple),
)
BATCHES = st.builds(
    NewRecordBatch,
    producer_id=st.integers(-1, 2**62).map(i64),
    producer_epoch=_integers(16).map(i16),
    partition_leader_epoch=_integers(32).map(i32),
    base_sequence=st.integers(-1, 2**31 - 1).map(i32),
    records=st.lists(_RECORDS, min_size=1, max_size=5).map(tuple),
    attributes=st.sampled_from([0, 0x10, 0x20, 0x08]).map(i16),
)
"""Batches without compression."""


def write_record_batch(batch: NewRecordBatch) -> bytes:
    """A batch as it stands on the wire."""
    out = io.BytesIO()
    write_batch(out, batch)
    return out.getvalue()


def record_size(record: Record) -> int:
    """What counts against a message's size limit."""
    parts = [record.key, record.value]
    for header in record.headers:
        parts += [header.key, header.value]
    return sum(len(part) for part in parts if part is not None)


RECORD_SETS = st.lists(BATCHES.map(write_record_batch), max_size=3).map(b"".join)
"""No, one or several batches."""
