"""Copies example files into the documents: `python docs/embed_examples.py` after you changed one.

A document names the file in a comment, `<!-- example: examples/hooks/decisions.py -->`, and the fenced block
that follows holds its text.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_EMBEDDED = re.compile(
    r"<!-- example: (?P<path>\S+) -->\n```(?P<language>\w*)\n(?P<text>.*?)```\n", re.DOTALL
)


def embed(text: str) -> str:
    """Give a document's text with each embedded example as its file is now.

    :raises FileNotFoundError: if the document names a file that does not exist.
    """

    def current(match: re.Match[str]) -> str:
        example = (ROOT / match["path"]).read_text()
        return f"<!-- example: {match['path']} -->\n```{match['language']}\n{example}```\n"

    return _EMBEDDED.sub(current, text)


def embedded(text: str) -> list[str]:
    """The example files that a document embeds."""
    return [match["path"] for match in _EMBEDDED.finditer(text)]


def main() -> None:
    """Bring all documents up to date."""
    for document in sorted((ROOT / "docs").glob("*.md")):
        before = document.read_text()
        after = embed(before)
        if after != before:
            document.write_text(after)
            print(f"updated {document.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
