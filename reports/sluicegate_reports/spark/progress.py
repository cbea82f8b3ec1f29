"""Shows the progress of a long job as a bar, if standard error is a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from sluicegate.output.console import Console

OnProgress = Callable[[int, int], None]
"""Takes how many parts are done, and of how many."""


def _unheard(done: int, parts: int) -> None:
    """Ignore progress."""


_heard: ContextVar[OnProgress] = ContextVar("heard", default=_unheard)


def tell(done: int, parts: int) -> None:
    """Report how much of the job is done; called by the thread that runs it."""
    _heard.get()(done, parts)


@contextmanager
def working(name: str, console: Console | None = None) -> Iterator[None]:
    """Show a progress bar while the block runs.

    :param name: what is done, such as `comparing`.
    :param console: where to; by default standard error.
    """
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    text = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)
        before = _heard.set(lambda done, parts: bar.update(task, completed=done, total=parts))
        try:
            yield
        finally:
            _heard.reset(before)
