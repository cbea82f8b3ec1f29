"""Parses Java's .properties files as Kafka's brokers do."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sluicegate.config.errors import Finding
from sluicegate.config.secrets import first_secret

_SPACE = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE = re.compile(r"[0-9A-Fa-f]{4}")


@dataclass(frozen=True, slots=True)
class Property:
    """One key and its value."""

    key: str
    value: str
    line: int
    """Its first line in the file, counted from 1."""
    source: str
    """The text of that line."""

    def error(self, file: str, message: str, remedy: str) -> Finding:
        """Create an error that points at the property."""
        column = len(self.source) - len(self.source.lstrip(_SPACE)) + 1
        source = self.source if first_secret(self.source) is None else ""
        return Finding(file, self.line, column, self.key, message, remedy, source, len(self.source.strip()))


def parse_properties(text: str, file: str, errors: list[Finding]) -> list[Property]:
    """Parse a file.

    :param text: its content.
    :param file: its name, for errors.
    :param errors: receives an error for each malformed property.
    :return: all properties in file order; of duplicate keys the last one, as in Java.
    """
    properties: dict[str, Property] = {}
    for number, source, line in _logical_lines(text):
        key, value = _split(line)
        made = Property(key, value, number, source)
        try:
            made = Property(_unescape(key), _unescape(value), number, source)
        except ValueError:
            errors.append(made.error(file, r"an invalid \u escape", r"write \\ for a backslash"))
            continue
        properties.pop(made.key, None)
        properties[made.key] = made
    return list(properties.values())


def _logical_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Join continued lines; yields number and text of the first line, and the joined line."""
    lines = re.split(r"\r\n|\r|\n", text)
    index = 0
    while index < len(lines):
        number, source = index + 1, lines[index]
        line = source.lstrip(_SPACE)
        index += 1
        if not line or line[0] in "#!":
            continue
        while _is_continued(line) and index < len(lines):
            line = line[:-1] + lines[index].lstrip(_SPACE)
            index += 1
        yield number, source, line[:-1] if _is_continued(line) else line


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Split key and value at the first `=`, `:` or space that is not escaped."""
    match = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", line, re.DOTALL)
    assert match is not None  # noqa: S101 - every part of it may be empty
    return match[1], match[2]


def _unescape(text: str) -> str:
    r"""Resolve backslashes.

    :raises ValueError: if a \u is not followed by four digits, or is an unpaired surrogate.
    """

    def resolve(match: re.Match[str]) -> str:
        digits, letter = match[1], match[2]
        if digits is None:
            return _ESCAPES.get(letter, letter)
        if _UNICODE.fullmatch(digits) is None:
            raise ValueError(match[0])
        return chr(int(digits, 16))

    resolved = re.sub(r"\\(?:u(.{0,4})|(.))", resolve, text, flags=re.DOTALL)
    # Java writes characters outside the basic multilingual plane as surrogate pairs.
    return resolved.encode("utf-16", "surrogatepass").decode("utf-16")
