"""The coverage of a baseline: its length and its gaps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

_HOUR_S, _DAY_S = 3_600, 86_400
Rates: TypeAlias = Mapping[tuple[str, ...], Sequence[Any]]
"""Rows of `Baseline.of_topics` by topic."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """First and last second of a baseline, since 1970."""

    first_s: int
    last_s: int

    @property
    def length_s(self) -> int:
        """Its length, the last second included."""
        return self.last_s - self.first_s + 1

    @property
    def text(self) -> str:
        """The period in words: `2026-11-21 12:00 to 2026-11-21 12:35 UTC, 35 min`."""
        first, last = (
            f"{datetime.fromtimestamp(s, UTC):%Y-%m-%d %H:%M}" for s in (self.first_s, self.last_s)
        )
        return f"{first} to {last} UTC, {_length(self.length_s)}"

    def warning(self) -> str:
        """The peaks that so short a baseline cannot contain; empty if it is a week or longer."""
        if self.length_s >= 7 * _DAY_S:
            return ""
        cycle, peaks = ("a day", "of other hours") if self.length_s < _DAY_S else ("a week", "of other days")
        return (
            f"The baseline is {_length(self.length_s)} long, which is shorter than {cycle}: peaks {peaks} "
            "are not in it, and limits may be too low for them. Keep them observed, or record longer."
        )


def unseen(rates: Rates) -> Iterator[str]:
    """Operations that the log does not contain."""
    blind = sorted(
        topic[3] for topic, rows in rates.items() if all(row["operation"] != "dispatch" for row in rows)
    )
    if blind:
        yield (
            f"{len(blind):,} topics have no dispatch in this log, such as {blind[0]}: no dispatch limits for "
            "them. A gateway reads deliveries only where a dispatch limit is set; an observed one, high "
            "enough for any load, has them recorded."
        )


def _length(seconds: int) -> str:
    if seconds < 2 * _HOUR_S:
        return f"{seconds / 60:,.0f} min" if seconds >= 60 else f"{seconds} s"
    return f"{seconds / _HOUR_S:,.1f} h" if seconds < 2 * _DAY_S else f"{seconds / _DAY_S:,.1f} days"
