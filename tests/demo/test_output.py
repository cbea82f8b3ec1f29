"""What the demo prints: tables or lists by the width of the page, escape codes only for who can read them."""

import io
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.demo.scenes import log, row, saw, scene

from sluicegate.demo.course import Chart, Sample
from sluicegate.demo.page import Page
from sluicegate.demo.runner import Outcome, Played
from sluicegate.demo.scene import Verdict
from sluicegate.demo.table import show, some

RIGHT, DIFFERENT, UNSATURATED = Verdict.RIGHT, Verdict.DIFFERENT, Verdict.UNSATURATED
ROWS = log(
    row(1.0, "reject", "max_message_size", current=4097.0, limit=4096.0, decision_id="fagz33-1"),
    row(2.0, "delay", "publish_quota", factor=0.5, delay=1, current=60.0, limit=50.0, topic="demo.scene-0"),
).rows


def outcome(directory: Path, *verdicts: Verdict, systems: tuple[str, ...] = ("kafka",)) -> Outcome:
    """A demo that ended so; its first scene has a chart."""
    drawn = Chart("A course", tuple(Sample(at / 10, 50.0, 40.0, "open") for at in range(40)))
    played = [
        Played(system, scene(f"scene-{place}"), saw(verdict, "it was seen", "[Error 44] No"), 0.1)
        for system in systems
        for place, verdict in enumerate(verdicts)
    ]
    played[0] = replace(played[0], observation=replace(played[0].observation, chart=drawn))
    file = directory / "gateway.yaml"
    return Outcome(directory, file, tuple(played), ROWS[1:], {"kafka": ("a note",)}, 1.0)


class Terminal(io.TextIOWrapper):
    """Standard output that says what it is."""

    def __init__(self, encoding: str = "utf-8", *, is_terminal: bool = True) -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    @property
    def written(self) -> str:
        self.flush()
        found = self.buffer.raw if hasattr(self.buffer, "raw") else self.buffer
        assert isinstance(found, io.BytesIO)
        return found.getvalue().decode(self.encoding)


def printed(
    monkeypatch: pytest.MonkeyPatch, of: Outcome, terminal: Terminal, plain: bool = False, **env: str
) -> str:
    """What is printed of a demo, in an environment that says nothing else."""
    for name in ("TERM", "COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", terminal)
    show(of, Page(plain))
    return terminal.written


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ((RIGHT, RIGHT), "2 of 2 observations are what the policies say; 1 s."),
        ((RIGHT, DIFFERENT), "1 of 2 observations differ from the policy; 1 s."),
        ((RIGHT, UNSATURATED), "1 of 2 observations are what the policies say, 1 not saturated here; 1 s."),
        (
            (RIGHT, UNSATURATED, DIFFERENT),
            "1 of 3 observations differ from the policy, 1 not saturated here; 1 s.",
        ),
    ],
)
@pytest.mark.parametrize("columns", ["60", "200"])
def test_the_page_says_how_many_observations_differ(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verdicts: tuple[Verdict, ...],
    words: str,
    columns: str,
) -> None:
    text = printed(monkeypatch, outcome(tmp_path, *verdicts), Terminal(), COLUMNS=columns)
    assert text.splitlines()[-1] == words
    assert text.count("DIFFERENT") == verdicts.count(DIFFERENT)
    assert "[Error 44] No" in text
    assert "- kafka: a note" in text


def test_the_same_policy_of_several_systems_stands_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = outcome(tmp_path, RIGHT, RIGHT, systems=("kafka", "pulsar"))
    wide = printed(monkeypatch, found, Terminal(), plain=True, COLUMNS="140")
    cells = [line.split("|") for line in wide.splitlines()]
    rows = [(each[1].strip(), each[2].strip()) for each in cells if len(each) == 8]
    order = [("scene-0", "kafka"), ("scene-0", "pulsar"), ("scene-1", "kafka"), ("scene-1", "pulsar")]
    assert [each for each in rows if each[0].startswith("scene")] == order
    narrow = printed(monkeypatch, found, Terminal(), plain=True, COLUMNS="60")
    heads = [line for line in narrow.splitlines() if line.startswith(("kafka: ", "pulsar: "))]
    assert heads == [f"{system}: {name}" for name, system in order]


@pytest.mark.parametrize("columns", [100, 119, 120, 140, 200])
def test_a_table_fits_its_page_with_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    found = outcome(tmp_path, RIGHT, DIFFERENT, UNSATURATED)
    text = printed(monkeypatch, found, Terminal(), plain=True, COLUMNS=str(columns))
    table = [line for line in text.partition("A course")[0].splitlines() if line.startswith(("|", "+"))]
    assert {len(line) for line in table} == {len(table[0])}
    assert len(table[0]) <= columns
    verdicts = " ".join(line.split("|")[-2].strip() for line in table if line.startswith("|"))
    assert verdicts.split() == ["ok", "DIFFERENT", "not", "saturated", "here"]


def test_a_narrow_page_has_lists_instead_of_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(monkeypatch, outcome(tmp_path, RIGHT), Terminal(), COLUMNS="60")
    assert (
        "kafka: scene-0\n  max_message_size: 10\nexpected: nothing happens\nobserved: it was seen\n" in text
    )
    assert "- delay: publish, demo.scene-0, by publish_quota (60 of 50)\n" in text
    assert "╭" not in text
    drawn = text.partition("A course\n")[2].partition("decision log: ")[0].splitlines()
    assert len(drawn) == 10
    assert max(map(len, drawn)) <= 60


@pytest.mark.parametrize(
    ("env", "is_terminal", "has_codes"),
    [
        ({"TERM": "xterm-256color"}, True, True),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": ""}, True, False),
        ({}, True, False),
        ({"TERM": "xterm-256color"}, False, False),
    ],
)
def test_escape_codes_are_for_terminals_that_know_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], is_terminal: bool, has_codes: bool
) -> None:
    found = outcome(tmp_path, RIGHT, DIFFERENT)
    text = printed(monkeypatch, found, Terminal(is_terminal=is_terminal), False, **env)
    assert ("\x1b" in text) is has_codes
    assert "DIFFERENT" in text


def test_plain_is_ascii_without_codes_even_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = outcome(tmp_path, RIGHT, DIFFERENT)
    for plain in (True, False):
        text = printed(monkeypatch, found, Terminal(), plain, TERM="xterm-256color", COLUMNS="120")
        assert text.isascii() is plain
        assert ("\x1b" not in text) is plain


def test_what_cannot_be_encoded_is_drawn_in_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(monkeypatch, outcome(tmp_path, RIGHT), Terminal("ascii"), COLUMNS="120")
    assert "A course" in text


@pytest.mark.parametrize("columns", ["", "0", "many"])
def test_what_is_printed_to_a_file_is_wide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    text = printed(monkeypatch, outcome(tmp_path, RIGHT), Terminal(is_terminal=False), COLUMNS=columns)
    assert max(map(len, text.splitlines())) >= 100


def test_rows_of_the_log_show_each_policy_once_and_refusals_first() -> None:
    def told(action: str, policy: str | None, second: int) -> dict[str, Any]:
        return {"action": action, "policy": policy, "time": datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)}

    rows = [
        told("allow", None, 0),
        told("delay", "max_publish_rate", 1),
        told("reject", "max_message_size", 3),
        told("reject", "max_message_size", 4),
        told("would_reject", "max_message_size", 2),
        told("reject", "max_producers_per_topic", 2),
    ]
    chosen = [(found["action"], found["time"].second) for found in some(rows)]
    assert chosen == [("reject", 2), ("reject", 3), ("would_reject", 2), ("delay", 1), ("allow", 0)]
