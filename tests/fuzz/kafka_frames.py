"""Kafka requests and responses by chance that make sense together, written by kio from Kafka's schemas."""

import datetime
import gzip
import struct
import uuid
from collections.abc import Iterator
from dataclasses import fields
from functools import cache, lru_cache
from random import Random
from types import NoneType
from typing import Any, get_args, get_origin

from kio.schema.errors import ErrorCode
from tests.fuzz import bombs
from tests.fuzz.services import LONG
from tests.kafka.codec.entities import (
    known_versions,
    request_frame,
    request_schema,
    response_frame,
    response_schema,
)
from tests.kafka.session.messages import batch, produce, subscription

from sluicegate_kafka.codec.api_keys import READ, ApiKey
from sluicegate_kafka.codec.primitives import with_length

TOPICS = ("a", "ns.b", "ns.c", "other.d", "e", f"ns.{LONG}")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_VARIANTS = 6
_LARGE = 0.1
"""Part of the Produce requests."""
_TEXTS = {
    "group_id": ("g1", "g2", "g3"),
    "member_id": ("", "m1", "m2", "m3"),
    "host": ("broker-1", "broker-2"),
    "protocol_type": ("consumer", "consumer", "connect"),
    "mechanism": ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"),
    "client_software_name": ("apache-kafka-java", "librdkafka"),
    "transactional_id": ("t1", "t2"),
}
_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 16}


def _tiny(count: int) -> bytes:
    """A batch of so many records of one byte."""
    return batch(*[b"x"] * count)


def _packed() -> bytes:
    """A batch whose records are in gzip."""
    plain = batch(*[b"value" * 20] * 9)
    records = gzip.compress(plain[61:], mtime=0)
    head = bytearray(plain[:61])
    head[8:12] = struct.pack(">i", 49 + len(records))
    head[21:23] = struct.pack(">h", 1)
    return bytes(head) + records


@cache
def batches() -> tuple[bytes, ...]:
    """What producers send."""
    return (
        batch(b"hello"),
        batch(b"one", b"two", b"three", producer_id=7, sequence=0),
        batch(b"four", producer_id=7, sequence=3),
        batch(b"x" * 120, timestamp_ms=2_000_000_000_000),
        batch(b"late", timestamp_ms=1_750_000_000_000),
        _tiny(300),
        _packed(),
        batch(b"a") + batch(b"b", offset=1) * 5,
        b"",
        *bombs.kafka_batches(),
    )


@cache
def versions(api_key: int) -> tuple[int, ...]:
    """Versions of an API that the gate offers, as far as kio knows them."""
    low, high, _ = READ.get(api_key, (0, 99, 0))
    return tuple(version for key, version in known_versions() if key == api_key and low <= version <= high)


def _value(kind: Any, name: str, field: str, chance: Random) -> Any:
    options = [each for each in get_args(kind) if each is not NoneType]
    if get_origin(kind) is tuple:
        return tuple(_value(options[0], name, field, chance) for _ in range(chance.choice((0, 1, 1, 2, 3))))
    if NoneType in get_args(kind):
        return None if chance.random() < 0.2 else _value(options[0], name, field, chance)
    return _plain(name, field, chance) if name else entity(kind, chance)


def _plain(name: str, field: str, chance: Random) -> Any:
    match name:
        case "string":
            return chance.choice(_TEXTS.get(field, TOPICS))
        case "bytes" | "records" if field in ("records", "record_set"):
            return chance.choice(batches())
        case "bytes" | "records":
            return subscription(*chance.sample(TOPICS, chance.randint(1, 3)))
        case "uuid":
            return uuid.UUID(int=chance.randrange(1, 8))
        case "bool":
            return chance.random() < 0.5
        case "error_code":
            return ErrorCode.none if chance.random() < 0.8 else chance.choice(list(ErrorCode))
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=chance.choice((0, 100, 30_000)))
        case "datetime_i64":
            return _EPOCH + datetime.timedelta(milliseconds=chance.choice((0, 1_750_000_000_000)))
        case _:
            small = chance.choice((0, 0, 1, 2, 5, -1))
            return small if small >= 0 or name == "uint16" else chance.choice((-1, 2 ** _BITS[name] - 1))


def entity(schema: type[Any], chance: Random) -> Any:
    """Any message of a schema."""
    values = {
        each.name: _value(each.type, each.metadata.get("kafka_type", ""), each.name, chance)
        for each in fields(schema)
    }
    return schema(**values)


@cache
def _request(api_key: int, version: int, variant: int) -> bytes:
    chance = Random(f"{api_key}/{version}/{variant}")
    made = entity(request_schema(api_key, version), chance)
    return with_length([request_frame(made, 0, chance.choice(("app", "other")))])


@cache
def _large() -> bytes:
    """A Produce that is decided by its start once its producer is known."""
    return produce({TOPICS[0]: batch(b"y" * 70_000)})


@cache
def _response(api_key: int, version: int, variant: int) -> bytes:
    made = entity(response_schema(api_key, version), Random(f"{api_key}/{version}/{variant}"))
    return with_length([response_frame(made, 0)])


def request(api_key: int, version: int, correlation_id: int, chance: Random) -> bytes:
    """One of a few requests of an API."""
    is_large = api_key == ApiKey.PRODUCE and chance.random() < _LARGE
    made = _large() if is_large else _request(api_key, version, chance.randrange(_VARIANTS))
    return made[:8] + correlation_id.to_bytes(4, "big") + made[12:]


def response(api_key: int, version: int, correlation_id: bytes, chance: Random) -> bytes:
    """One of a few responses of an API."""
    made = _response(api_key, version, chance.randrange(_VARIANTS))
    return made[:4] + correlation_id + made[8:]


def produced(version: int, topics: tuple[tuple[str, tuple[int, ...]], ...], correlation_id: bytes) -> bytes:
    """The broker's answer that these partitions were stored."""
    made = _produced(version, topics)
    return made[:4] + correlation_id + made[8:]


@lru_cache(1_000)  # mutators make names
def _produced(version: int, topics: tuple[tuple[str, tuple[int, ...]], ...]) -> bytes:
    schema = response_schema(0, version)
    of_topic = next(get_args(each.type)[0] for each in fields(schema) if each.name == "responses")
    of_partition = next(
        get_args(each.type)[0] for each in fields(of_topic) if each.name == "partition_responses"
    )
    chance = Random(version)

    def filled(kind: type[Any], **values: Any) -> Any:
        made = entity(kind, chance)
        return kind(**{each.name: values.get(each.name, getattr(made, each.name)) for each in fields(kind)})

    responses = tuple(
        filled(
            of_topic,
            name=name,
            partition_responses=tuple(
                filled(of_partition, index=index, error_code=ErrorCode.none) for index in partitions
            ),
        )
        for name, partitions in topics
    )
    return with_length([response_frame(filled(schema, responses=responses), 0)])


def whole_frames(stream: bytearray) -> Iterator[bytes]:
    """Take the whole frames off a stream, each with its length."""
    while len(stream) >= 4 and len(stream) >= 4 + int.from_bytes(stream[:4], "big"):
        end = 4 + int.from_bytes(stream[:4], "big")
        frame = bytes(stream[:end])
        del stream[:end]
        yield frame
