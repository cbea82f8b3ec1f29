"""What the demo writes: a policy file that reads back as it was meant, tables that say what differs."""

import io
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.demo.scenes import NoBroker, saw, scene

from sluicegate.demo import Backend, Observation
from sluicegate.demo.policy_file import PolicyFile
from sluicegate.demo.ports import free_ports
from sluicegate.demo.runner import Outcome, Played
from sluicegate.demo.table import Page, show, some


def test_the_policy_file_says_what_was_added(tmp_path: Path) -> None:
    file = PolicyFile(tmp_path / "gateway.yaml", tmp_path / "a state: dir")
    observed = {"max_message_size": "1KiB", "observe_only": {"max_message_size": True}}
    scenes = (scene("size", saw(True), **observed), scene("rate", saw(True), max_publish_rate="5/s"))
    file.add("kafka", NoBroker(*scenes), Backend({"bootstrap": ["h:1"], "listen": {"port": 2}}), scenes)
    file.write()
    assert yaml.safe_load(file.path.read_text()) == {
        "brokers": [{"name": "kafka", "system": "kafka", "bootstrap": ["h:1"], "listen": {"port": 2}}],
        "state_dir": str(tmp_path / "a state: dir"),
        "policies": {
            "topics": [
                {"name": "demo.size", **observed},
                {"name": "demo.rate", "max_publish_rate": "5/s"},
            ]
        },
    }
    assert "# nothing at all" in file.text()
    assert "# kafka: nothing happens" in file.text()


def test_the_same_policy_of_several_brokers_stands_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = PolicyFile(tmp_path / "gateway.yaml", tmp_path)
    played = []
    for system in ("kafka", "pulsar"):
        scenes = [replace(scene(name, saw(True)), topic=f"{system}.{name}") for name in ("size", "rate")]
        file.add(system, NoBroker(), Backend({"bootstrap": ["h:1"]}), scenes)
        played += [Played(system, each, Observation(True, "seen"), 0.1) for each in scenes]
    topics = yaml.safe_load(file.text())["policies"]["topics"]
    assert [topic["name"] for topic in topics] == ["kafka.size", "pulsar.size", "kafka.rate", "pulsar.rate"]

    show(Outcome(tmp_path, file.path, tmp_path / "state", tuple(played), {}, 1.0), Page(plain=True))
    rows = [
        (cells[1].split()[0], cells[2].strip())
        for cells in (line.split("|") for line in capsys.readouterr().out.splitlines())
        if len(cells) == 8 and cells[2].strip() in ("kafka", "pulsar")
    ]
    assert rows == [("size", "kafka"), ("size", "pulsar"), ("rate", "kafka"), ("rate", "pulsar")]


def test_two_scenes_cannot_share_a_topic(tmp_path: Path) -> None:
    scenes = (scene("size", saw(True)), scene("size", saw(True)))
    file = PolicyFile(tmp_path / "gateway.yaml", tmp_path)
    with pytest.raises(ValueError, match=r"'demo\.size' is used by two scenes"):
        file.add("kafka", NoBroker(), Backend({"bootstrap": ["h:1"]}), scenes)


def test_free_ports_are_free_and_neighbours() -> None:
    import socket

    first = free_ports(3)
    for port in range(first, first + 3):
        socket.create_server(("127.0.0.1", port)).close()


def outcome(directory: Path, *met: bool) -> Outcome:
    played = tuple(
        Played("kafka", scene(f"scene-{place}", saw(fine)), Observation(fine, "seen", "[Error 44] No"), 0.1)
        for place, fine in enumerate(met)
    )
    return Outcome(
        directory, directory / "gateway.yaml", directory / "state", played, {"kafka": ("a note",)}, 1.0
    )


def test_the_page_says_how_many_observations_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show(outcome(tmp_path, True, False), Page(plain=False))
    printed = capsys.readouterr().out
    assert printed.count("DIFFERENT") == 1
    assert "1 of 2 observations differ from the policy" in printed
    assert "[Error 44] No" in printed
    assert "- kafka: a note" in printed

    show(outcome(tmp_path, True, True), Page(plain=False))
    assert "2 of 2 observations are what the policies say" in capsys.readouterr().out


def test_plain_is_ascii_without_colours_even_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    for plain in (True, False):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stdout", terminal)
        show(outcome(tmp_path, True, False), Page(plain))
        written = terminal.getvalue()
        assert written.isascii() is plain
        assert ("\x1b[31" in written or "\x1b[1;31" in written) is not plain


def test_rows_of_the_log_show_each_policy_once_and_refusals_first() -> None:
    def row(action: str, policy: str | None, second: int) -> dict[str, Any]:
        return {"action": action, "policy": policy, "time": datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)}

    rows = [
        row("allow", None, 0),
        row("delay", "max_publish_rate", 1),
        row("reject", "max_message_size", 3),
        row("reject", "max_message_size", 4),
        row("would_reject", "max_message_size", 2),
        row("reject", "max_producers_per_topic", 2),
    ]
    chosen = [(found["action"], found["time"].second) for found in some(rows)]
    assert chosen == [("reject", 2), ("reject", 3), ("would_reject", 2), ("delay", 1), ("allow", 0)]
