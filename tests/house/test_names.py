"""No module's name says so little that it stands in three rooms."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sorted(
    path.parent
    for folder in ("core", "interceptors", "plugins/danube", "plugins/kafka", "plugins/pulsar", "reports")
    for path in (ROOT / folder).glob("sluicegate*/__init__.py")
)
# Names that a convention asks for, whatever the room.
CONVENTIONS = {
    "__init__": "Python's own",
    "__main__": "Python's own",
    "plugin": "the module of a room that implements hooks, which entry points and the gateway load",
}


def counterparts(package: Path, module: Path) -> str:
    """What a module is called in its package; the same for modules that do the same in rooms side by side.

    Each broker room is laid out as the others are, and interceptors with threads as those on an event loop.
    """
    return module.relative_to(package).as_posix().replace("/sync/", "/aio/")


def rooms_by_name(packages: list[Path]) -> dict[str, set[str]]:
    """Where each name of a module stands, counterparts once."""
    found: dict[str, set[str]] = {}
    for package in packages:
        for module in package.rglob("*.py"):
            found.setdefault(module.stem, set()).add(counterparts(package, module))
    return found


def crowded(packages: list[Path]) -> dict[str, list[str]]:
    """Names that stand in three places or more."""
    return {
        name: sorted(places)
        for name, places in rooms_by_name(packages).items()
        if len(places) > 2 and name not in CONVENTIONS
    }


def test_no_name_of_a_module_stands_three_times() -> None:
    assert crowded(PACKAGES) == {}


def test_a_third_module_of_a_name_is_found_and_a_counterpart_is_not(tmp_path: Path) -> None:
    kafka, pulsar = tmp_path / "sluicegate_kafka", tmp_path / "sluicegate_pulsar"
    for path in (kafka / "front.py", pulsar / "front.py", kafka / "session/front.py"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert crowded([kafka, pulsar]) == {}
    (pulsar / "codec").mkdir()
    (pulsar / "codec" / "front.py").touch()
    assert crowded([kafka, pulsar]) == {"front": ["codec/front.py", "front.py", "session/front.py"]}


def test_each_convention_is_still_asked_for() -> None:
    found = rooms_by_name(PACKAGES)
    assert [name for name in CONVENTIONS if len(found[name]) < 2] == []
