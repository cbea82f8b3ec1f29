"""Errors and warnings about a configuration, each with its location and a remedy."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from sluicegate.model import visible

Severity: TypeAlias = Literal["error", "warning", "note"]
"""A file with an error is rejected; warnings are only reported; notes tell what may well be meant."""

_MAX_MESSAGE = 300
_MAX_SOURCE = 140


@dataclass(frozen=True, slots=True)
class Finding:
    """One error or warning about the file, the environment, or a file that they refer to."""

    file: str
    """Path of the file as the user gave it, or the name of the environment variable."""
    line: int
    """Counted from 1; 0 if the error belongs to no line, such as a file that cannot be read."""
    column: int
    """Counted from 1, in characters."""
    path: str
    """Dotted path of the value, such as `policies.topics.0.max_publish_rate`."""
    message: str
    remedy: str = ""
    source_line: str = ""
    length: int = 1
    """Number of characters to underline."""
    severity: Severity = "error"

    def as_json(self) -> dict[str, str | int]:
        """The finding for programs, without the source line."""
        keys = ("severity", "file", "line", "column", "path", "message", "remedy")
        values = asdict(self)
        return {key: values[key] for key in keys}

    def in_a_line(self) -> str:
        """The finding as one line, for a log."""
        where = f"{self.file}:{self.line}:{self.column} ({self.path})" if self.line else self.file
        return visible(f"{where}: {_shorten(self.message)}: {self.remedy}")

    def render(self) -> str:
        """The finding with its source line and a caret, without a final line break."""
        return "\n".join(map(visible, self._lines()))

    def _lines(self) -> list[str]:
        head = f"{self.severity}[config]: {_shorten(self.message)}"
        if self.line < 1:
            return [head, f"  --> {self.file}", *([f"  {self.remedy}"] if self.remedy else [])]
        where = f"  --> {self.file}:{self.line}:{self.column}" + (f"  ({self.path})" if self.path else "")
        if not self.source_line:
            return [head, where, f"  {self.remedy}".rstrip()]
        # A window of a very long line keeps the caret on the screen.
        start = max(0, self.column - _MAX_SOURCE // 2) if len(self.source_line) > _MAX_SOURCE else 0
        # Escaped before columns are counted, as an escape sequence is longer than its character.
        before = visible(self.source_line[start : self.column - 1])
        marked = visible(self.source_line[self.column - 1 : start + _MAX_SOURCE])
        length = len(visible(self.source_line[self.column - 1 :][: self.length]))
        carets = "^" * max(1, min(length, len(marked)))
        margin = str(self.line)
        return [
            head,
            where,
            f"{margin}| {before}{marked}",
            f"{' ' * len(margin)}| {' ' * len(before)}{carets} {self.remedy}".rstrip(),
        ]


class ConfigErrors(Exception):  # noqa: N818 - it carries several errors
    """The configuration was rejected as a whole."""

    def __init__(self, errors: list[Finding]) -> None:
        self.errors = by_location(errors)
        """Every error that was found, in file order."""
        count = f"{len(errors)} configuration error{'s' if len(errors) != 1 else ''}"
        # Who embeds a gateway sees no more of it than this, in a traceback.
        super().__init__(f"{count}:\n{self.render()}")

    def render(self) -> str:
        """Format all errors for people, separated by empty lines."""
        return render(self.errors)


def by_location(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings by their position in the file."""
    return sorted(findings, key=lambda finding: (finding.file, finding.line, finding.column))


def render(findings: Iterable[Finding]) -> str:
    """Format findings for people, separated by empty lines."""
    return "\n\n".join(finding.render() for finding in findings)


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_MESSAGE else text[:_MAX_MESSAGE] + "…"
