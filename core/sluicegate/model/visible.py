"""Text that others chose, such as the names of clients, made safe to show."""

import unicodedata

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of control and format characters, halves of characters and separators: C0, DEL, C1,
changes of direction, line ends (Unicode Standard, table 4-4)."""


def visible(text: str, keep: str = "") -> str:
    """A text without characters that control a terminal: they become escape sequences, as Python writes them.

    Shown as it is, a name could move the cursor, recolour or retitle a terminal, write lines of its own, or
    turn the order of what is read (CWE-150).

    :param keep: characters that stay as they are, such as the line ends of a document.
    """
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode("ascii") if char not in keep and _is_hidden(char) else char
        for char in text
    )


def visible_json(text: str) -> str:
    """The same JSON text, with these characters escaped as JSON does (RFC 8259, section 7).

    :param text: valid JSON; line ends between its values stay.
    """
    if text.isprintable():
        return text
    return "".join(_json_escape(char) if char != "\n" and _is_hidden(char) else char for char in text)


def _is_hidden(char: str) -> bool:
    return unicodedata.category(char) in _HIDDEN


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
