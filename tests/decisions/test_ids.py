"""Decision ids: short, unique, and found again in a text that somebody pasted."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.decisions.ids import DecisionIds, base36, id_in, with_id


@given(st.integers(min_value=0, max_value=1 << 80))
def test_base36_reads_back_as_the_same_number(number: int) -> None:
    assert int(base36(number), 36) == number
    assert base36(number) == "0" or not base36(number).startswith("0")


def test_ids_count_up_in_base_36_after_the_run_prefix() -> None:
    ids = DecisionIds("abcd")

    given_out = [ids.next() for _ in range(4_000)]

    assert given_out == [f"abcd-{base36(number)}" for number in range(1, 4_001)]


def test_ids_are_unique_over_restarts() -> None:
    first, second = DecisionIds(), DecisionIds()

    ids = {each.next() for each in (first, second) for _ in range(3_000)}

    assert len(ids) == 6_000
    assert all(re.fullmatch(r"[0-9a-z]{4,}-[0-9a-z]+", each) for each in ids)
    assert first.prefix != second.prefix


@pytest.mark.seed("S1-104")
def test_the_id_follows_the_text_which_stays_unchanged() -> None:
    text = (
        "Producer limit reached for topic /default/t. Current: 10, Limit: 10. "
        "Wait for existing producers to disconnect or increase max_producers_per_topic policy."
    )

    assert with_id(text, "k3x9qa-1f") == f"{text} [sluicegate k3x9qa-1f]"
    assert with_id(text, "") == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("k3x9qa-1f", "k3x9qa-1f"),
        ("[sluicegate k3x9qa-1f]", "k3x9qa-1f"),
        ("TopicAuthorizationException: topic well-known is full [sluicegate k3x9qa-1f]", "k3x9qa-1f"),
        ("  k3x9qa-1f\n", "k3x9qa-1f"),
        ("abc-1", None),
        ("", None),
    ],
)
def test_an_id_is_found_in_what_a_person_pastes(text: str, found: str | None) -> None:
    assert id_in(text) == found
