"""Patterns match as regular expressions would, without ever reading a name twice."""

import re
import sys
from typing import SupportsIndex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluicegate.model import Glob

PATTERNS = st.text("ab*.", max_size=12)
NAMES = st.text("ab.\n", max_size=16)


@given(PATTERNS, NAMES)
@example("ab*ba", "aba")
@example("*a*a", "a")
@example("**", "")
@example("", "")
def test_a_star_stands_for_any_characters(pattern: str, name: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None

    assert Glob(pattern).matches(name) == expected


@pytest.mark.parametrize(("pattern", "name"), [("a?", "ab"), ("[ab]", "a"), ("a.c", "abc"), ("a\\*", "a*")])
def test_nothing_but_a_star_is_special(pattern: str, name: str) -> None:
    assert not Glob(pattern).matches(name)
    assert Glob(f"{pattern}*").matches(f"{pattern}z".replace("*", ""))


class _Name(str):
    """A name that counts how many of its characters `find` looks at."""

    __slots__ = ("read",)
    read: int

    def find(
        self, part: str, start: SupportsIndex | None = 0, end: SupportsIndex | None = sys.maxsize, /
    ) -> int:
        found = super().find(part, start, end)
        assert start is not None
        assert end is not None
        self.read += (int(end) if found < 0 else found + len(part)) - int(start)
        return found


@given(PATTERNS, NAMES)
@example("a*.*.*.*.*.*.*.*.b", "a" + "." * 249)
@example("a*b*b*b*b*b*b*b*.", "a" + "b" * 249)
def test_each_character_is_looked_at_once_at_most(pattern: str, name: str) -> None:
    counted = _Name(name)
    counted.read = 0

    Glob(pattern).matches(counted)

    assert counted.read <= len(name)
