"""Links in the documents lead somewhere; the documents name what is there."""

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sluicegate_danube.plugin import DanubeDriver
from sluicegate_kafka.plugin import KafkaDriver
from sluicegate_pulsar.plugin import PulsarDriver

ROOT = Path(__file__).resolve().parents[2]
_SKIPPED = {"target", "build", "dist", "results"}
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@cache
def documents() -> tuple[Path, ...]:
    """All Markdown files of the project; hidden folders, which hold many files, are not read."""
    found: list[Path] = []
    for place, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in _SKIPPED and not name.startswith(".")]
        found += [Path(place, name) for name in files if name.endswith(".md") and not name.startswith(".")]
    return tuple(sorted(found))


def prose(path: Path) -> str:
    return _FENCED.sub("", path.read_text())


@cache
def anchors(path: Path) -> set[str]:
    """Anchors of a document's headings, as code hosts make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.*)$", prose(path), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).lower()).replace(" ", "-")
        number = 0
        while slug in found:
            number += 1
            slug = f"{slug.removesuffix(f'-{number - 1}')}-{number}"
        found.add(slug)
    return found


def broken_links(path: Path) -> list[str]:
    """What a document links to that does not exist."""
    broken = []
    for link in _LINK.findall(prose(path)):
        if re.match(r"[a-z]+:", link):
            broken.append(f"{link} (leads out of the project)")
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        if not file.exists():
            broken.append(link)
        elif anchor and (file.suffix != ".md" or anchor not in anchors(file)):
            broken.append(f"{link} (no such heading)")
    return broken


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    assert broken_links(path) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# One `two`, three\n\n## Again\n\n## Again\n")
    path = tmp_path / "it.md"
    path.write_text(
        "[a](other.md#one-two-three) [b](other.md#again-1) [c](gone.md) [d](other.md#four)\n"
        "```\n[in code](gone.md)\n```\n[e](mail:someone)\n"
    )
    assert broken_links(path) == [
        "gone.md",
        "other.md#four (no such heading)",
        "mail:someone (leads out of the project)",
    ]


def test_every_document_is_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [
        path.name for path in sorted((ROOT / "docs").glob("*.md")) if f"(docs/{path.name})" not in readme
    ] == []


def test_every_example_is_named_in_their_readme() -> None:
    text = (ROOT / "examples" / "README.md").read_text()
    examples = [path for path in (ROOT / "examples").rglob("*.*") if path.suffix in {".py", ".yaml"}]
    named = [path.relative_to(ROOT / "examples").as_posix() for path in examples]
    assert [name for name in named if f"({name})" not in text] == []


def test_commands_in_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    environments = (ROOT / "tox.ini").read_text()
    text = "".join(path.read_text() for path in documents())
    for target in set(re.findall(r"`make ([a-z]+)`|\$ make ([a-z]+)", text)):
        assert f"\n{''.join(target)}:" in makefile
    for name in set(re.findall(r"tox run -e (\w+)", text)) - {"py"}:
        assert f"[testenv:{name}]" in environments


@pytest.mark.parametrize("driver", [KafkaDriver, PulsarDriver, DanubeDriver])
def test_the_capability_matrix_says_what_the_drivers_say(driver: type[Any]) -> None:
    text = (ROOT / "docs" / "capabilities.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line]
    column = rows[0].index(driver.system.capitalize())
    told = {row[0].strip("`"): row[column] for row in rows if len(row) == len(rows[0])}
    found = {
        name: next((kind for kind in ("native", "emulated", "not applicable") if cell.startswith(kind)), cell)
        for name, cell in told.items()
        if name in driver.capabilities
    }
    assert found == dict(driver.capabilities)
