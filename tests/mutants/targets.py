"""What can be mutated, by name, and what is known of mutants that survive."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Target:
    """Source files that are mutated in one run."""

    name: str
    files: tuple[str, ...]
    """Paths below the repository's root."""
    tests: tuple[str, ...]
    """Files and folders of tests that are to notice a change."""
    without: tuple[str, ...] = ()
    """Tests among them that fail on mutated files whatever the change."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a mutant changes, in words that stay the same when lines move."""

    file: str
    function: str
    was: str
    becomes: str


def targets() -> dict[str, Target]:
    """The rows of `targets.toml`, by name."""
    rows = tomllib.loads((_HERE / "targets.toml").read_text())
    return {
        name: Target(
            name,
            tuple(file for file in _matching(row["files"]) if file not in row.get("but", ())),
            tuple(row["tests"]),
            tuple(row.get("without", ())),
        )
        for name, row in rows.items()
    }


def only(target: Target, pattern: str) -> Target:
    """The part of a target whose file names match a pattern, with a name of its own."""
    files = tuple(file for file in target.files if fnmatch(Path(file).name, pattern))
    name = f"{target.name}-{re.sub('[^a-z_]+', '-', pattern)}" if files != target.files else target.name
    return Target(name, files, target.tests, target.without)


def equivalents() -> dict[Change, str]:
    """Mutants that may survive, with the reason each."""
    rows = tomllib.loads((_HERE / "equivalent.toml").read_text())
    return {
        Change(file, mutant["function"], mutant["was"], mutant["becomes"]): mutant["reason"]
        for file, mutants in rows.items()
        for mutant in mutants
    }


def _matching(patterns: list[str]) -> Iterator[str]:
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            yield str(path.relative_to(ROOT))
