"""Bytes that are kept until they are looked at: all of them, in order, and never beyond the budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.engine.budget import Budget
from sluicegate.sessions.pieces import NoRoomError, Pieces


@given(st.lists(st.binary(min_size=1, max_size=20)))
def test_kept_bytes_are_returned_in_order_and_given_back_to_the_budget(pieces: list[bytes]) -> None:
    budget = Budget(0)
    kept = Pieces(budget)
    for piece in pieces:
        kept.keep(piece)
    assert kept.size == budget.used == len(b"".join(pieces))
    assert kept.joined() == kept.all() == b"".join(pieces)
    assert (kept.size, budget.used, kept.all()) == (0, 0, b"")


def test_what_finds_no_room_is_not_kept() -> None:
    budget = Budget(10)
    kept = Pieces(budget)
    kept.keep(b"12345678")
    with pytest.raises(NoRoomError):
        kept.keep(b"abc")
    assert (kept.size, budget.used) == (8, 8)
    kept.keep(b"ab")
    assert kept.all() == b"12345678ab"


def test_the_bytes_after_the_first_piece() -> None:
    budget = Budget(0)
    kept = Pieces(budget)
    for piece in (b"first", b"second", b"third"):
        kept.keep(piece)
    assert kept.behind_first() == b"secondthird"
    assert (kept.size, budget.used) == (0, 0)


def test_what_is_dropped_is_given_back() -> None:
    budget = Budget(0)
    kept = Pieces(budget)
    kept.keep(b"gone")
    kept.drop()
    assert (kept.size, budget.used, kept.joined()) == (0, 0, b"")


def test_a_frame_is_returned_once_it_has_the_bytes_it_needs() -> None:
    budget = Budget(20)
    kept = Pieces(budget)
    kept.begin(b"abc", need=8)
    assert kept.add(b"defg") is None
    assert (kept.size, budget.used) == (7, 7)
    assert kept.add(b"hi") == b"abcdefghi"
    assert (kept.size, budget.used) == (0, 0)
    kept.begin(b"x", need=1)
    with pytest.raises(NoRoomError):
        kept.add(bytes(20))
