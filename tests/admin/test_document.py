"""docs/operations.md names the paths of the admin API and its problems."""

import re
from pathlib import Path

from sluicegate.admin import EFFECTIVE_POLICIES, POLICIES

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs" / "operations.md").read_text().partition("## Admin API")[2].partition("\n## ")[0]


def test_every_path_is_documented() -> None:
    assert EFFECTIVE_POLICIES in SECTION
    assert POLICIES in SECTION


def test_every_problem_is_documented() -> None:
    sources = (ROOT / "core" / "sluicegate" / "admin").glob("*.py")
    names = {
        name for source in sources for name in re.findall(r'problem\(\s*"([a-z-]+)"', source.read_text())
    }
    assert {"unknown-broker", "wrong-host", "internal-error"} <= names
    assert [name for name in sorted(names) if f"`{name}`" not in SECTION] == []
