"""Lengths that no request can have: what the log says of each."""

import struct

import pytest

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.request_sizes import (
    LIST_BYTES,
    LOGIN_BYTES,
    OTHER_BYTES,
    RequestSizes,
    TooLargeError,
    bad_length,
)

LARGEST = 100 * 1024 * 1024
SIZES = RequestSizes(LARGEST, {ApiKey.LIST_GROUPS: 5})


def error(length: int, api_key: int) -> ProtocolError:
    """The error for a request that stands behind two other bytes."""
    return bad_length(b"\x16\x03" + struct.pack(">ihh", length, api_key, 1), 2, length, SIZES)


@pytest.mark.parametrize(
    ("api_key", "most", "name"),
    [
        (ApiKey.METADATA, OTHER_BYTES, "metadata"),
        (ApiKey.FETCH, LIST_BYTES, "fetch"),
        (ApiKey.SASL_HANDSHAKE, LOGIN_BYTES, "sasl_handshake"),
        (ApiKey.LIST_GROUPS, 5, "list_groups"),
    ],
)
def test_a_request_that_is_too_large_names_the_setting_to_raise(api_key: int, most: int, name: str) -> None:
    for length in (most + 1, LARGEST):
        found = error(length, api_key)
        assert type(found) is TooLargeError
        assert str(found) == (
            f"{name} request of length {length}, {most} are the most; raise request_bytes.{name}"
        )


@pytest.mark.parametrize("api_key", [150, 1000, -1])
def test_a_large_request_of_an_unknown_api_is_named_by_its_number(api_key: int) -> None:
    found = error(OTHER_BYTES + 1, api_key)
    assert type(found) is TooLargeError
    assert str(found) == (
        f"api key {api_key}: request of length {OTHER_BYTES + 1}, {OTHER_BYTES} are the most"
    )


@pytest.mark.parametrize("length", [LARGEST + 1, 2**31 - 1, 3, 0, -1, OTHER_BYTES])
def test_bytes_that_are_hardly_those_of_kafka_name_no_setting(length: int) -> None:
    found = error(length, ApiKey.METADATA)
    assert type(found) is ProtocolError
    assert str(found) == f"request of length {length}"


def test_a_client_that_begins_with_tls_is_told_apart() -> None:
    hello = b"\x16\x03\x01\x02\x00\x01"
    found = bad_length(b"xx" + hello, 2, int.from_bytes(hello[:4]), SIZES)
    assert (type(found), str(found)) == (ProtocolError, "a TLS hello on a plain listener")


def test_no_api_takes_more_than_the_largest_frame() -> None:
    sizes = RequestSizes(1_000, {ApiKey.METADATA: 5_000, ApiKey.HEARTBEAT: 10})
    keys = (ApiKey.METADATA, ApiKey.HEARTBEAT, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SASL_AUTHENTICATE, 150)
    assert [sizes[key] for key in keys] == [1_000, 10, 1_000, 1_000, 1_000, 1_000]
    assert sizes.largest == 1_000
