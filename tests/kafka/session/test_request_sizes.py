"""Only requests with records or long lists may be large; others close the connection before they are read."""

import struct

import pytest
from pydantic import ValidationError
from tests.kafka.session.messages import batch, produce
from tests.kafka.session.wire import Bench, Wire

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.request_sizes import LIST_BYTES, LOGIN_BYTES, OTHER_BYTES

MIB = 1024 * 1024
UNKNOWN = 150


def begun(api_key: int, length: int, data: bytes = b"") -> bytes:
    """The start of a request that says how long it is."""
    return struct.pack(">ihhih", length, api_key, 1, 7, -1) + data


@pytest.mark.parametrize(
    ("api_key", "most"),
    [
        (ApiKey.METADATA, OTHER_BYTES),
        (ApiKey.LIST_GROUPS, OTHER_BYTES),
        (UNKNOWN, OTHER_BYTES),
        (ApiKey.SYNC_GROUP, LIST_BYTES),
        (ApiKey.OFFSET_COMMIT, LIST_BYTES),
        (ApiKey.SASL_AUTHENTICATE, LOGIN_BYTES),
        (ApiKey.PRODUCE, 100 * MIB),
    ],
)
def test_each_api_has_its_largest_request(api_key: int, most: int) -> None:
    fits, too_large = Wire(Bench()), Wire(Bench())
    fits.client_sends(begun(api_key, most))
    assert fits.closed is None
    too_large.client_sends(begun(api_key, most + 1))
    assert too_large.closed is not None
    assert too_large.upstream == b""
    assert too_large.session.held_bytes == 0


def test_the_log_names_the_setting_to_raise() -> None:
    wire = Wire(Bench())
    wire.client_sends(begun(ApiKey.METADATA, 99 * MIB))
    assert wire.closed is not None
    assert wire.closed.counter == "request_too_large"
    assert wire.closed.detail.startswith(
        f"metadata request of length {99 * MIB}, {MIB} are the most; raise request_bytes.metadata"
    )


def test_a_size_limit_is_raised_by_the_name_of_its_api() -> None:
    wire = Wire(Bench(), request_bytes={"metadata": "4MiB", "produce": 1000})
    wire.client_sends(begun(ApiKey.METADATA, 4 * MIB))
    assert wire.closed is None
    other = Wire(Bench(), wire.shared)
    other.client_sends(produce({"t": batch(b"x" * 2000)}))
    assert other.closed is not None
    assert "raise request_bytes.produce" in other.closed.detail


def test_nothing_is_larger_than_the_largest_frame() -> None:
    wire = Wire(Bench(), max_frame_bytes=1000, request_bytes={"metadata": "4MiB"})
    wire.client_sends(begun(ApiKey.METADATA, 1001))
    assert wire.closed is not None


def test_an_unknown_api_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ValidationError, match="unknown API 'metadatas'"):
        Wire(Bench(), request_bytes={"metadatas": 1})


def test_announcing_two_gibibytes_allocates_nothing() -> None:
    wire = Wire(Bench())
    wire.client_sends(begun(ApiKey.PRODUCE, 2**31 - 1, b"x" * 1000))
    assert wire.closed is not None
    assert wire.closed.counter == "malformed_request"
    assert (wire.session.held_bytes, wire.shared.budget.used) == (0, 0)


def test_the_start_time_of_an_unread_partial_request_is_known() -> None:
    wire = Wire(Bench())
    assert wire.session.frame_began_ns == 0
    wire.client_sends(begun(ApiKey.LIST_GROUPS, 1000))
    began_ns = wire.now
    for _ in range(10):
        wire.now += 2_000_000_000
        wire.client_sends(b"x")
        assert wire.session.frame_began_ns == began_ns
    wire.client_sends(b"x" * 979)
    assert wire.session.frame_began_ns == began_ns
    wire.client_sends(b"x")
    assert wire.session.frame_began_ns == 0


def test_the_start_time_of_a_buffered_partial_request_is_known() -> None:
    wire = Wire(Bench())
    frame = produce({"t": batch(b"x")})
    wire.client_sends(frame[:20])
    began_ns = wire.now
    wire.now += 2_000_000_000
    wire.client_sends(frame[20:30])
    assert wire.session.frame_began_ns == began_ns
    wire.client_sends(frame[30:] + frame[:20])
    assert wire.session.frame_began_ns == wire.now
