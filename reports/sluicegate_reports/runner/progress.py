"""Progress on the terminal: a bar for each arm with its clients' counts so far."""

from collections.abc import Mapping
from typing import Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from sluicegate.model import visible
from sluicegate.output.console import Console

_SHOWN = {
    "attached": "attached",
    "attach_refused": "turned away",
    "sent": "sent",
    "acknowledged": "acknowledged",
    "refused": "refused",
    "failed": "without an answer",
    "received": "received",
}


class Bars:
    """A `running.Progress`; a context manager.

    :param console: where it is shown; without a terminal it is one line for each arm.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[counts]}", markup=False),
            console=console,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None
        self._counts = ""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        """A line."""
        self._console.print(text, soft_wrap=True)

    def begin(self, arm: str, seconds: float) -> None:
        """See `running.Progress`."""
        self._counts = ""
        self._task = self._progress.add_task(arm, total=seconds, counts="")

    def at(self, seconds: float, counts: Mapping[str, int]) -> None:
        """See `running.Progress`."""
        self._counts = ", ".join(
            f"{counts[name]} {text}" for name, text in _SHOWN.items() if counts.get(name)
        )
        if self._task is not None:
            self._progress.update(self._task, completed=max(seconds, 0.0), counts=self._counts)

    def end(self, arm: str, missing: str) -> None:
        """See `running.Progress`."""
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None
        mark, text = (("missing", "yellow"), missing) if missing else (("played", "green"), self._counts)
        self._console.print(Text.assemble(mark, f"  {arm}: {visible(text)}"), soft_wrap=True)
