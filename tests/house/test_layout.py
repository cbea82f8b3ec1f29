"""Tests are laid out as the source is: a folder stands for a room or a module, or is named here."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "danube": "plugins/danube/sluicegate_danube",
    "grpc": "interceptors/sluicegate_grpc",
    "kafka": "plugins/kafka/sluicegate_kafka",
    "pulsar": "plugins/pulsar/sluicegate_pulsar",
    "reports": "reports/sluicegate_reports",
}
# Folders that stand for no room, by the last part of their path.
OTHERS = {
    "benchmarks": "the programs of that folder",
    "deploy": "alerts and dashboards, which Prometheus and Grafana read",
    "conformance": "the doors of each system, for the suite that all pass",
    "docs": "the documents",
    "example": "examples/grpc",
    "fuzz": "whole sessions of all protocols",
    "gateway": "whole gateways: a policy file, processes, clients",
    "house": "the rules for rooms, files and documents",
    "install": "the distribution, in fresh environments",
    "matrix": "each policy with each client library",
    "mutants": "the tool that changes the code",
    "oracle": "another implementation of HTTP/2",
    "planted": "faults that each verdict must name",
    "proxy": "a gateway in front of Danube's reference broker",
    "real": "real brokers",
    "support": "what the tests of a folder share",
    "walk": "the tool that follows a message",
}
FOLDERS = sorted(
    {test.parent.relative_to(ROOT / "tests") for test in (ROOT / "tests").rglob("*.py")} - {Path()}
)


def source_of(folder: Path) -> Path:
    """Where the room would stand whose tests a folder holds."""
    first, *rest = folder.parts
    return ROOT.joinpath(ROOMS.get(first, f"core/sluicegate/{first}"), *rest)


def is_room(source: Path) -> bool:
    """Whether a package or a module is there; a folder that git has emptied may keep caches."""
    return (source / "__init__.py").is_file() or source.with_suffix(".py").is_file()


@pytest.mark.parametrize("folder", FOLDERS, ids=Path.as_posix)
def test_a_folder_of_tests_stands_for_a_room_or_says_what_it_is(folder: Path) -> None:
    assert is_room(source_of(folder)) or OTHERS.keys() & set(folder.parts)


def test_each_other_folder_is_still_there_and_stands_for_no_room() -> None:
    found = {folder.name for folder in FOLDERS if not is_room(source_of(folder))}
    assert OTHERS.keys() <= found


def test_what_is_left_of_a_removed_room_is_none(tmp_path: Path) -> None:
    (tmp_path / "gone" / "__pycache__").mkdir(parents=True)
    assert not is_room(tmp_path / "gone")
    (tmp_path / "gone" / "__init__.py").touch()
    assert is_room(tmp_path / "gone")
