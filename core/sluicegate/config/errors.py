"""Configuration errors as people like to read them: all at once, each with its place and its remedy."""

from dataclasses import dataclass

_MAX_MESSAGE = 300
_MAX_SOURCE = 140


@dataclass(frozen=True, slots=True)
class ConfigError:
    """One mistake in the file or the environment."""

    file: str
    """File as it was given, or the name of the environment variable."""
    line: int
    """Counted from 1; 0 if the mistake is not in a line (a file that cannot be read)."""
    column: int
    """Counted from 1, in characters."""
    path: str
    """Dotted path of the value, such as `policies.topics.0.max_publish_rate`."""
    message: str
    remedy: str = ""
    source_line: str = ""
    length: int = 1
    """Number of characters to underline."""

    def render(self) -> str:
        """The error with its source line and a caret, without a final line break."""
        head = f"error[config]: {_shorten(self.message)}"
        if self.line < 1:
            return head + f"\n  --> {self.file}" + (f"\n  {self.remedy}" if self.remedy else "")
        where = f"  --> {self.file}:{self.line}:{self.column}" + (f"  ({self.path})" if self.path else "")
        # A window of a very long line keeps the caret on the screen.
        start = max(0, self.column - _MAX_SOURCE // 2) if len(self.source_line) > _MAX_SOURCE else 0
        shown = _printable(self.source_line[start : start + _MAX_SOURCE])
        before = self.column - 1 - start
        carets = "^" * max(1, min(self.length, len(shown) - before))
        margin = str(self.line)
        return "\n".join(
            (
                head,
                where,
                f"{margin}| {shown}",
                f"{' ' * len(margin)}| {' ' * before}{carets} {self.remedy}".rstrip(),
            )
        )


class ConfigErrors(Exception):  # noqa: N818 - it carries all of them
    """The configuration was refused; nothing of it was applied."""

    def __init__(self, errors: list[ConfigError]) -> None:
        super().__init__(f"{len(errors)} configuration error{'s' if len(errors) != 1 else ''}")
        self.errors = sorted(errors, key=lambda error: (error.file, error.line, error.column))
        """Every mistake that was found, by place."""

    def render(self) -> str:
        """All errors, an empty line between them."""
        return "\n\n".join(error.render() for error in self.errors)


def _shorten(text: str) -> str:
    return _printable(text if len(text) <= _MAX_MESSAGE else text[:_MAX_MESSAGE] + "…")


def _printable(text: str) -> str:
    """Terminal escapes in a hostile file must not reach the terminal."""
    return "".join(char if char.isprintable() else " " for char in text)
