"""Request and response headers, in every version that kio knows of the APIs that are read."""

import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.index import api_key_map
from tests.kafka.codec.entities import known_versions, request_schema, response_schema, write_entity

from sluicegate_kafka.codec.api_keys import READ, ApiKey
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import (
    client_id_of,
    is_flexible,
    parse_request_head,
    response_body_offset,
    response_head,
)


def _read_versions() -> Iterator[tuple[int, int]]:
    return ((api_key, version) for api_key, version in known_versions() if api_key in READ)


def _header(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    schema = request_schema(api_key, version).__header_schema__
    return write_entity(
        schema(
            request_api_key=api_key,
            request_api_version=version,
            correlation_id=correlation_id,
            client_id=client_id,
        )
    )


def test_api_keys_are_those_of_kafka() -> None:
    newer = {93: "streams_group_topology_description_update", 94: "unregister_controller"}
    assert {key.value: key.name.lower() for key in ApiKey} == {**newer, **api_key_map}


def test_headers_are_parsed_as_kafka_writes_them() -> None:
    for api_key, version in _read_versions():
        header = _header(api_key, version, -5, "cli")
        head = parse_request_head(b"...." + header + b"body", 4)
        assert head == (api_key, version, -5, "cli", 4 + len(header), 4, 8 + len(header)), (api_key, version)
        assert is_flexible(api_key, version) == request_schema(api_key, version).__flexible__


def test_response_bodies_begin_where_kafka_puts_them() -> None:
    for api_key, version in _read_versions():
        header = write_entity(response_schema(api_key, version).__header_schema__(correlation_id=9))
        assert response_head(api_key, version, 9) == header
        assert response_body_offset(api_key, version, header + b"body") == len(header), (api_key, version)


def test_tagged_fields_in_headers_are_skipped() -> None:
    header = _header(ApiKey.PRODUCE, 12, 1, "a")
    assert header[-1:] == b"\0"
    head = parse_request_head(header[:-1] + b"\1\7\2xyB")
    assert head.body == len(header) + 4
    assert response_body_offset(ApiKey.PRODUCE, 12, b"\0\0\0\1\1\7\2xyB") == 9


@given(st.text(max_size=200) | st.none())
def test_client_ids(client_id: str | None) -> None:
    assert parse_request_head(_header(3, 12, 1, client_id)).client_id == (client_id or "")


def test_no_client_id_is_an_empty_one() -> None:
    for client_id in (None, ""):
        assert parse_request_head(_header(ApiKey.METADATA, 12, 1, client_id)).client_id == ""


def test_unknown_apis_have_a_header_too() -> None:
    head = parse_request_head(b"\x03\xe8\0\x05\0\0\0\x01\0\x02ab\0rest")
    assert head.api_key == 1000
    assert (head.version, head.client_id, head.body) == (5, "ab", 12)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "no request header"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "no request header"),
        (b"\0\0\0\x09\0\0\0\x01\0\x7fabc", "no request header|a request header of 137 bytes"),
        (b"\xff\xff\0\x09\0\0\0\x01\0\0\0", "API key -1 version 9"),
        (b"\0\0\xff\xff\0\0\0\x01\0\0\0", "API key 0 version -1"),
        (b"\0\x03\0\x01\0\0\0\x01\0\x02\xff\xfe", "no request header"),
        (b"\0\x03\0\x01\0\0\0\x01\0\x7fabc", "a request header of 137 bytes in a frame of 13"),
        (b"GET / HTTP/1.1\r\n\r\n", "a request header"),
    ],
)
def test_bytes_that_are_not_a_request_are_refused(raw: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        parse_request_head(raw)


def test_a_request_may_have_a_header_alone() -> None:
    raw = _header(ApiKey.API_VERSIONS, 0, 1, "a")
    head = parse_request_head(raw)
    assert (head.body, head.end) == (len(raw), len(raw))


def test_a_header_stays_within_its_frame() -> None:
    raw = _header(ApiKey.METADATA, 1, 1, "abcdef")
    with pytest.raises(ProtocolError, match="a request header of 16 bytes in a frame of 12"):
        parse_request_head(raw + b"next frame", 0, 12)
    with pytest.raises(ProtocolError, match="a request header of 16 bytes in a frame of 12"):
        parse_request_head(b"...." + raw, 4, 16)


def test_a_garbled_response_header() -> None:
    with pytest.raises(ProtocolError, match="no response header"):
        response_body_offset(ApiKey.PRODUCE, 12, b"\0\0\0\1")


@pytest.mark.parametrize("api_key", [ApiKey.PRODUCE, ApiKey.API_VERSIONS])
@pytest.mark.parametrize("client_id", ["", "a", "x" * 2_000])
def test_the_client_id_is_told_from_first_bytes(api_key: int, client_id: str) -> None:
    written = client_id.encode()
    first = struct.pack(">ihhih", 10 + len(written) + 1, api_key, 3, 1, len(written)) + written + b"\0"
    seen = 0
    while isinstance(found := client_id_of(first[:seen]), int):
        assert found > seen
        seen = found
    assert found == written[:1_024]


def test_headers_without_client_ids_name_none() -> None:
    assert client_id_of(struct.pack(">ihhih", 12, ApiKey.PRODUCE, 3, 1, -1)) == b""
    assert client_id_of(struct.pack(">ihhih", 12, 7, 0, 1, 5)) == b""
