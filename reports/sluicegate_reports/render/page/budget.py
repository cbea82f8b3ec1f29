"""Limits on the content of a page that keep it within its size."""

from dataclasses import dataclass

MAX_BYTES = 900_000
"""Size of a page; if the content is larger, points and rows are thinned out, and the page says so."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on the content of a page."""

    points: int
    """Of one series."""
    rows: int
    """Of one table."""
    text: int
    """Characters of the scenario and of the policies."""
    tables_points: bool = False
    """Whether the points of charts are also shown as tables."""
    origins: int = 1_000
    """Rows of one table that link to their source in the logs."""
    charts: bool = True


BUDGETS = (
    Budget(400, 200, 40_000, tables_points=True),
    Budget(400, 200, 30_000),
    Budget(300, 100, 20_000),
    Budget(240, 60, 20_000, origins=30),
    Budget(160, 40, 10_000, origins=12),
    Budget(160, 24, 8_000, origins=0),
    Budget(80, 12, 8_000, origins=0),
    Budget(40, 6, 4_000, origins=0),
    Budget(16, 3, 2_000, origins=0),
    Budget(16, 3, 2_000, origins=0, charts=False),
)
"""From most to least."""
OF_LOG = tuple(Budget(0, rows, 0) for rows in (1_000, 300, 100, 30, 10))
"""The same for the findings of a log, which are tables only."""
