"""Each room has a README of a few lines, which names only files that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 10
ROOMS = sorted(
    init.parent
    for folder in ("core", "interceptors", "plugins/danube", "plugins/kafka", "plugins/pulsar", "reports")
    for init in (ROOT / folder).glob("sluicegate*/**/__init__.py")
)


def readme_of(room: Path) -> Path:
    """A package's README stands beside it, that of a room inside it."""
    return (room if (room.parent / "__init__.py").exists() else room.parent) / "README.md"


def test_rooms_of_all_depths_are_found() -> None:
    assert {"sluicegate", "sluicegate_grpc", "splice", "codec", "transforms"} <= {room.name for room in ROOMS}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(ROOT).as_posix())
def test_each_room_has_a_readme(room: Path) -> None:
    text = readme_of(room).read_text()
    assert re.match(r"# \S", text)
    if readme_of(room).parent == room:
        assert len(text.splitlines()) <= MOST_LINES


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(ROOT).as_posix())
def test_the_files_that_a_readme_names_are_there(room: Path) -> None:
    named = re.findall(r"`([\w/]+\.py)`", readme_of(room).read_text())
    assert [name for name in named if not list(room.rglob(name))] == []
