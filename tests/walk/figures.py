"""The figures of the walks: as they are, as recorded, and as wanted."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.walk.cases import CASES
from tests.walk.recording import Walk

_RECORDED = Path(__file__).with_name("figures.toml")


@dataclass(frozen=True, slots=True)
class Figures:
    """What a walk may take.

    :param at_most: files and moves, as last recorded.
    :param goal: the files and moves to come down to; None if no goal is set.
    """

    at_most: tuple[int, int]
    goal: tuple[int, int] | None


def recorded() -> Mapping[str, Figures]:
    """What `figures.toml` says, by the name of the walk."""
    table = tomllib.loads(_RECORDED.read_text())
    return {
        f"{case}-{name}": Figures(_pair(entry["at_most"]), _pair(entry["goal"]) if "goal" in entry else None)
        for case, walks in table.items()
        for name, entry in walks.items()
    }


def _pair(numbers: list[int]) -> tuple[int, int]:
    files, moves = numbers
    return files, moves


def walks_of(case: str) -> Mapping[str, Walk]:
    """The walks of a case as they are now, by their whole names."""
    return {f"{case}-{name}": walk for name, walk in CASES[case]().items()}
