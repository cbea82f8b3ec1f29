"""The console snippets of the documents: which commands they show, and what these print."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.house.test_documents import ROOT, documents

RECORD = "RESULTS.md"
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_VOLATILE = (
    (r"\b[0-9a-z]{6,}-[0-9a-z]+\b(?=[\]: \n]|$)", "ID"),  # decision ids
    (r"\b\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)", "TIME"),
    (r"\d+(\.\d+)*", "N"),  # ports, versions, counts, durations
    (r"\b0\.0\.0\.0\b|\blocalhost\b", "HOST"),
    (r"\s+", " "),  # widths of tables follow what is in them
)


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a document."""

    document: str
    """Path of the document, from the project's root."""
    line: int
    text: str
    """What is typed, continuation lines and comments included."""
    shown: tuple[str, ...]
    """The lines that the document shows as printed; empty if it shows none."""

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"{self.document}:{self.line}"

    @property
    def bare(self) -> str:
        """The command on one line, without a comment at its end."""
        return re.sub(r"\s+#\s.*$", "", self.text.replace("\\\n", " ")).strip()


def commands(path: Path) -> list[Command]:
    """The commands in a document's console blocks, in their order."""
    text, name = path.read_text(), path.relative_to(ROOT).as_posix()
    found = []
    for block in _FENCED.finditer(text):
        if block[1] == "console":
            first = text.count("\n", 0, block.start(2)) + 1
            found += list(_commands(name, first, block[2].splitlines()))
    return found


def all_commands() -> dict[str, list[Command]]:
    """The commands of all documents that have any, by document; not of records of what was once run."""
    found = {path.relative_to(ROOT).as_posix(): commands(path) for path in documents() if path.name != RECORD}
    return {name: each for name, each in found.items() if each}


def unmarked(path: Path) -> list[int]:
    """Lines that show a command in a block that is not marked as `console`."""
    text = path.read_text()
    return [
        text.count("\n", 0, block.start(2)) + 1
        for block in _FENCED.finditer(text)
        if block[1] != "console" and re.search(r"^\$ ", block[2], re.MULTILINE)
    ]


def _commands(document: str, first: int, lines: list[str]) -> Iterator[Command]:
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    assert starts[:1] == [0], f"{document}:{first}: a console block begins with `$ ` and a command"
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        last = start
        while lines[last].endswith("\\"):
            last += 1
        typed = "\n".join([lines[start].removeprefix("$ "), *lines[start + 1 : last + 1]])
        yield Command(document, first + start, typed, tuple(lines[last + 1 : end]))


def differs(shown: tuple[str, ...], printed: str) -> str:
    """Compare what a document shows with what was printed.

    Numbers, ids, times and widths may differ. `...` stands for anything: alone on a line for any lines,
    within a line for any text.

    :return: the first line shown that was not printed; empty if there is none.
    """
    pattern, lines = "", [*map(_shape, printed.splitlines())]
    for line in shown:
        pattern += r"(?:.*\n)*?" if line.strip() == "..." else _pattern(line)
        if not re.match(pattern, "".join(f"{each}\n" for each in lines)):
            return line
    return ""


def _shape(line: str) -> str:
    for volatile, sign in _VOLATILE:
        line = re.sub(volatile, sign, line)
    return line.strip()


def _pattern(line: str) -> str:
    return ".*".join(re.escape(_shape(part)) for part in line.split("...")) + r"\n"
