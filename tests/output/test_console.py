"""What rich prints for commands does not control the terminal."""

from io import StringIO

import pytest
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text
from tests.output import HOSTILE, SHOWN

from sluicegate.model import visible
from sluicegate.output.console import Console


def table() -> Table:
    made = Table(HOSTILE, "b", title=HOSTILE)
    made.add_row(HOSTILE, Text(HOSTILE))
    return made


@pytest.mark.parametrize(
    "shown",
    [HOSTILE, Text(HOSTILE), table(), Group(HOSTILE, Text(HOSTILE)), Panel(Text(HOSTILE), title=HOSTILE)],
    ids=lambda shown: type(shown).__name__,
)
def test_only_lines_and_visible_characters_are_printed(shown: RenderableType) -> None:
    out = StringIO()
    Console(file=out, width=500).print(shown)
    assert visible(out.getvalue(), keep="\n") == out.getvalue()
    assert "forged line" in out.getvalue()


def test_a_string_stays_one_line_and_is_no_markup() -> None:
    out = StringIO()
    Console(file=out, width=500).print(f"[red]{HOSTILE}[/] :smile: 7", soft_wrap=True)
    assert out.getvalue() == f"[red]{SHOWN}[/] :smile: 7\n"


def test_colours_are_still_written() -> None:
    out = StringIO()
    Console(file=out, width=500, force_terminal=True, color_system="standard").print(
        Text(f"{HOSTILE}", style="red")
    )
    assert out.getvalue().startswith("\x1b[31ma\\x1b]0;owned")


def test_a_progress_bar_shows_names_as_they_are() -> None:
    out = StringIO()
    console = Console(file=out, width=500, force_terminal=True, color_system=None)
    column = TextColumn("{task.description}", markup=False)
    with Progress(column, console=console, auto_refresh=False) as bar:
        bar.add_task(HOSTILE)
        bar.refresh()
    assert "\x1b]0;owned" not in out.getvalue()
    assert "\\x1b]0;owned" in out.getvalue()
