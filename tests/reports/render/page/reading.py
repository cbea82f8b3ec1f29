"""A page as a screen reader sees it: elements, ids, links, texts, and markup errors."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"br", "meta", "col", "link", "wbr"}


@dataclass
class Element:
    """One element."""

    name: str
    attributes: dict[str, str]
    content: list["Element | str"] = field(default_factory=list)

    @property
    def children(self) -> list["Element"]:
        """Elements in it."""
        return [part for part in self.content if isinstance(part, Element)]

    @property
    def text(self) -> str:
        """All text in it, white space made single."""
        return " ".join(self._raw().split())

    def _raw(self) -> str:
        # A space after each element: words of two cells are two words.
        return "".join(part if isinstance(part, str) else part._raw() + " " for part in self.content)

    def all(self, name: str, **attributes: str) -> list["Element"]:
        """Elements of a name below it."""
        elements = []
        for child in self.children:
            wanted = {key.rstrip("_"): value for key, value in attributes.items()}.items()
            if child.name == name and wanted <= child.attributes.items():
                elements.append(child)
            elements += child.all(name, **attributes)
        return elements


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("document", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].content.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].content.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].content.append(data)


def read(text: str) -> Element:
    """Parse a page; each element must be closed where it belongs."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert len(reader.open) == 1, f"never closed: {[element.name for element in reader.open]}"
    return reader.open[0]
