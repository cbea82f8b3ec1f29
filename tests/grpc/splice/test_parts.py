"""The small parts: settings, compressed messages, floods."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_grpc.splice.floods import Flood
from sluicegate_grpc.splice.frames import WireError
from sluicegate_grpc.splice.messages import UnknownEncodingError, UnreadableError, inflated
from sluicegate_grpc.splice.settings import entries, shrinks_table, stateless


def settings(*pairs: tuple[int, int]) -> bytes:
    return b"".join(name.to_bytes(2, "big") + value.to_bytes(4, "big") for name, value in pairs)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2**32 - 1)), max_size=8), st.booleans())
def test_settings_say_that_there_is_no_table_and_otherwise_the_same(
    pairs: list[tuple[int, int]], first: bool
) -> None:
    told = list(entries(stateless(settings(*pairs), 65_536, first=first)))
    assert [value for name, value in told if name == 1] == [0] * max(
        first, sum(name == 1 for name, _ in pairs)
    )
    rest = [(name, min(value, 65_536) if name == 5 else value) for name, value in pairs if name != 1]
    assert [pair for pair in told if pair[0] != 1] == rest


def test_who_asks_for_a_smaller_table_is_known() -> None:
    assert shrinks_table(settings((1, 4_095)))
    assert not shrinks_table(settings((1, 4_096), (4, 0)))
    with pytest.raises(WireError):
        list(entries(b"12345"))


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


def test_a_flood_is_what_comes_too_often_in_a_second() -> None:
    flood = Flood("pings", 3)
    for second in range(5):
        for _ in range(3):
            flood.count(second * 1_000_000_000)
    with pytest.raises(WireError) as raised:
        flood.count(4_500_000_000)
    assert raised.value.counter == "pings_flood"
