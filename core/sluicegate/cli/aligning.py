"""Tables for a terminal."""

from collections.abc import Sequence

from sluicegate.model import visible


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Format rows as lines with aligned columns; the last column may have any width."""
    rows = [tuple(map(visible, row)) for row in rows]  # escape sequences count in a column's width
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]
