"""Reading in slices: generators that yield where other work may be done, and return what they found."""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

Found = TypeVar("Found")
Slices: TypeAlias = Generator[None, None, Found]


def at_once(slices: Slices[Found]) -> Found:
    """Do all slices without a pause."""
    while True:
        try:
            next(slices)
        except StopIteration as ended:
            found: Found = ended.value
            return found
