"""What plugins show after the scenes: who is asked, and what becomes of what they find."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.demo.scenes import NoBroker, saw, scene

import sluicegate.cli.demo  # noqa: F401 - the module of that name, see `demo_module`
from sluicegate import hookimpl
from sluicegate.cli import main
from sluicegate.demo.parts import show_parts
from sluicegate.demo.runner import Outcome, Played
from sluicegate.demo.scene import Verdict
from sluicegate.runtime.plugins import Plugins, load_plugins

demo_module = sys.modules["sluicegate.cli.demo"]


class Part:
    """A plugin that shows something."""

    def __init__(self, name: str, found: Sequence[str] = (), raises: Exception | None = None) -> None:
        self.__name__ = name
        self.asked: list[tuple[Any, ...]] = []
        self._found, self._raises = found, raises

    @hookimpl
    def sluicegate_demo(self, directory: Path, systems: Sequence[str], plain: bool) -> Sequence[str]:
        self.asked.append((directory, systems, plain))
        if self._raises is not None:
            raise self._raises
        print(f"shown by {self.__name__}")
        return self._found


def with_parts(monkeypatch: pytest.MonkeyPatch, *parts: Part) -> Plugins:
    """The built-in plugins and these."""
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "")
    return load_plugins((), parts)


def test_all_parts_are_shown_and_one_that_raises_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, fine = Part("broken", raises=ValueError("no room")), Part("fine", ["it is late"])
    found = show_parts(with_parts(monkeypatch, broken, fine), tmp_path, ["kafka"], True)
    assert found == ["plugin 'broken' could not show its part: ValueError: no room", "it is late"]
    assert fine.asked == [(tmp_path, ("kafka",), True)]


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`sluicegate demo --all` whose only scene was seen before."""

    def invoke(part: Part, *options: str, met: bool = True) -> Result:
        plugins = with_parts(monkeypatch, part)
        seen = scene("size")
        observation = saw(Verdict.RIGHT if met else Verdict.DIFFERENT)
        played = (Played("nothing", seen, observation, 0.1),)
        outcome = Outcome(tmp_path, tmp_path / "gateway.yaml", played, [], {}, 1.0)
        monkeypatch.setattr(demo_module, "load_plugins", lambda modules: plugins)
        monkeypatch.setattr(demo_module, "_demos", lambda *given: {"nothing": NoBroker(seen)})
        monkeypatch.setattr(demo_module, "_run", lambda *given: outcome)
        return CliRunner().invoke(main, ["demo", "--all", "--keep", str(tmp_path / "kept"), *options])

    return invoke


def test_the_last_lines_summarize_scenes_and_parts(demo: Any, tmp_path: Path) -> None:
    part = Part("report")
    done = demo(part)
    assert done.exit_code == 0, done.output
    assert part.asked == [(tmp_path, ("nothing",), False)]
    lines = done.output.splitlines()
    assert lines[0] == "shown by report"
    assert lines[2] == "1 of 1 observations are what the policies say; 1 s."
    assert lines[3].startswith("The whole demo took 1 s;")


def test_what_a_part_finds_wrong_is_exit_code_1(demo: Any) -> None:
    done = demo(Part("report", ["a message came too early"]))
    assert done.exit_code == 1
    assert "a message came too early" in done.output


def test_a_scene_that_differs_is_exit_code_1_whatever_the_parts_say(demo: Any) -> None:
    done = demo(Part("report"), met=False)
    assert done.exit_code == 1
    assert "1 of 1 observations differ from the policy" in done.output


@pytest.mark.parametrize("options", [["--no-report"], ["--only", "size"]])
def test_the_quick_demo_asks_no_question(demo: Any, options: list[str]) -> None:
    part = Part("report")
    assert demo(part, *options).exit_code == 0
    assert part.asked == []
