"""HTML and SVG as text: everything from results is escaped."""

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

Attribute: TypeAlias = str | float | bool | None


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


_VOID = frozenset({"br", "meta", "col", "use", "path", "line", "rect", "circle"})
"""Elements that are written without content."""


def tag(name: str, /, *content: str, **attributes: Attribute) -> Markup:
    """An element.

    :param content: text, which is escaped, or Markup, which is not.
    :param attributes: `class_` is written `class`, `stroke_width` `stroke-width`; None and False leave one
        out, True gives it without a value.
    """
    opened = "".join([name, *(_attribute(key, value) for key, value in attributes.items())])
    if name in _VOID and not content:
        return Markup(f"<{opened}/>")
    return Markup(f"<{opened}>{join(*content)}</{name}>")


def join(*parts: str) -> Markup:
    """Parts one after the other, text among them escaped."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part, quote=False) for part in parts))


def scrolled(label: str, *content: Markup) -> Markup:
    """A region that is scrolled where it is wider than the page."""
    return tag("div", *content, class_="scroll", tabindex="0", role="region", aria_label=label)


def grid(
    title: str,
    head: Iterable[Markup],
    body: Iterable[Markup],
    class_: str | None = None,
    id_: str | None = None,
) -> Markup:
    """A table, whose title screen readers alone are told.

    :param head: rows, as those of `body`.
    """
    caption = tag("caption", title, class_="unseen")
    return tag("table", caption, tag("thead", *head), tag("tbody", *body), class_=class_, id=id_)


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = short(value) if isinstance(value, float) else escape(str(value))
    return f' {name}="{text}"'


def short(value: float) -> str:
    """A coordinate to a tenth of a pixel, which keeps pages small."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")
