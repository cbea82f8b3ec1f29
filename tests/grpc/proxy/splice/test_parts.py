"""The small parts: settings, compressed messages, floods."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_grpc.events import GrpcClose
from sluicegate_grpc.proxy.splice.floods import Flood
from sluicegate_grpc.proxy.splice.frames import WireError
from sluicegate_grpc.proxy.splice.messages import UnknownEncodingError, UnreadableError, inflated
from sluicegate_grpc.proxy.splice.settings import bounded, entries, shrinks_table


def settings(*pairs: tuple[int, int]) -> bytes:
    return b"".join(name.to_bytes(2, "big") + value.to_bytes(4, "big") for name, value in pairs)


_FRAME_SIZE = st.tuples(st.just(5), st.integers(16_384, 2**24 - 1))
_OTHERS = st.tuples(st.sampled_from([0, 1, 2, 3, 4, 6, 7, 8, 9, 20, 0xFE03]), st.integers(0, 2**32 - 1))


@given(st.lists(_FRAME_SIZE | _OTHERS, max_size=8), st.booleans())
def test_settings_that_the_gateway_knows_pass_within_its_limits(
    pairs: list[tuple[int, int]], first: bool
) -> None:
    most = {1: 0, 3: 1_000, 5: 65_536, 6: 60_000}
    told = list(entries(bounded(settings(*pairs), most, first=first)))
    kept = [(name, min(value, most.get(name, value))) for name, value in pairs if 1 <= name <= 6]
    added = [(name, most[name]) for name in (1, 3, 6) if first and name not in dict(pairs)]
    assert told == added + kept


def test_a_smaller_header_table_is_respected() -> None:
    assert shrinks_table(settings((1, 4_095)))
    assert not shrinks_table(settings((1, 4_096), (4, 0)))
    with pytest.raises(WireError):
        list(entries(b"12345"))


@pytest.mark.parametrize("size", [0, 16_383, 2**24])
def test_an_invalid_frame_size_is_rejected(size: int) -> None:
    with pytest.raises(WireError):
        list(entries(settings((5, size))))


@given(st.binary(max_size=2_000))
def test_messages_are_inflated_within_the_limit(content: bytes) -> None:
    for encoding, packed in (("gzip", gzip.compress(content)), ("deflate", zlib.compress(content))):
        assert inflated(packed, encoding, 2_000) == content
        if len(content) > 1:
            with pytest.raises(UnreadableError):
                inflated(packed, encoding, len(content) - 1)
        for broken in (packed[:-1], packed + b"x", b"x" + packed):
            with pytest.raises(UnreadableError):
                inflated(broken, encoding, 2_000)
    with pytest.raises(UnknownEncodingError):
        inflated(content, "br", 2_000)


def test_too_many_frames_in_a_second_are_a_flood() -> None:
    flood = Flood(GrpcClose.PINGS_FLOOD, 3)
    for second in range(5):
        for _ in range(3):
            flood.count(second * 1_000_000_000)
    with pytest.raises(WireError) as raised:
        flood.count(4_500_000_000)
    assert raised.value.counter == "pings_flood"
