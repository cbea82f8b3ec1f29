"""Formatted output on standard output."""

import os
import sys

from rich import box
from rich.table import Table
from rich.text import Text

from sluicegate.demo.course import Chart
from sluicegate.demo.drawing import draw
from sluicegate.output.console import Console

_WIDTH = 150
"""Columns of output that is not printed to a terminal."""
_NARROW = 100
"""Columns below which tables of sentences are unreadable."""


class Page:
    """Standard output.

    It writes no escape codes to a file, a pipe or a dumb terminal, or if `NO_COLOR` is set. Its width comes
    from `COLUMNS`, or from the terminal.

    :param plain: never write escape codes, and only ASCII.
    """

    def __init__(self, plain: bool) -> None:
        self._plain = plain or not (sys.stdout.encoding or "").lower().startswith("utf")
        self._box = box.ASCII2 if self._plain else box.ROUNDED
        codes = sys.stdout.isatty() and os.environ.get("TERM") and not os.environ.get("NO_COLOR")
        columns = os.environ.get("COLUMNS", "")
        self.console = Console(
            color_system="auto" if codes and not plain else None,
            width=int(columns) if columns.isdigit() and int(columns) else self._default_width(),
        )

    @staticmethod
    def _default_width() -> int | None:
        return None if sys.stdout.isatty() else _WIDTH

    @property
    def width(self) -> int:
        """Columns of a line."""
        return self.console.width

    @property
    def is_narrow(self) -> bool:
        """Whether to print lists instead of tables."""
        return self.width < _NARROW

    @property
    def is_plain(self) -> bool:
        """Whether to print only ASCII."""
        return self._plain

    def say(self, text: str, style: str = "") -> None:
        """Print a text, as it is divided into lines."""
        self.console.print(Text(text), style=style or None, soft_wrap=True)

    def table(self, title: str, lines: bool = False) -> Table:
        """Create an empty table."""
        return Table(title=title, show_lines=lines, title_justify="left", box=self._box)

    def show(self, what: Table | Text) -> None:
        """Print a table, or a line in several styles."""
        self.console.print(what)

    def chart(self, chart: Chart) -> None:
        """Draw the chart of a scene."""
        for line in draw(chart, self.width, self._plain):
            self.show(line)
