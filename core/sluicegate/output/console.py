"""A rich console for what others chose: it passes on no character that controls a terminal."""

from collections.abc import Iterable
from typing import Any

from rich import console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from sluicegate.model import visible


class Console(console.Console):  # noqa: TID251 - the one place
    """rich's console; what it prints is no markup, and not highlighted.

    Strings are lines: a line end within one is escaped. Texts (`rich.text.Text`) keep their lines.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Make a text of a string that is printed or in a table."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render a text, or a part of something larger that is one."""
        if isinstance(renderable, Text) and not renderable.plain.isprintable():
            renderable = renderable.copy()
            renderable.plain = visible(renderable.plain, keep="\n\t")
        return super().render(renderable, options)
