"""The length of a baseline, and what it does not cover."""

import pytest

from sluicegate_reports.recommending.coverage import Coverage, unseen

NOON_S = 1_795_262_400
"""2026-11-21 12:00 UTC."""


def topic(name: str, *operations: str) -> dict[tuple[str, ...], list[dict[str, object]]]:
    return {("kafka", "main", "default", name): [{"operation": each} for each in operations]}


@pytest.mark.parametrize(
    ("seconds", "length", "short"),
    [
        (30, "30 s", "shorter than a day"),
        (2_100, "35 min", "shorter than a day"),
        (36_000, "10.0 h", "shorter than a day"),
        (259_200, "3.0 days", "shorter than a week"),
        (604_800, "7.0 days", ""),
    ],
)
def test_a_short_baseline_gives_a_warning(seconds: int, length: str, short: str) -> None:
    coverage = Coverage(NOON_S, NOON_S + seconds - 1)
    assert coverage.text.startswith("2026-11-21 12:00 to 2026-11-")
    assert coverage.text.endswith(f" UTC, {length}")
    assert short in coverage.warning()
    assert bool(coverage.warning()) is bool(short)


def test_topics_without_dispatch_are_reported() -> None:
    rates = {**topic("a", "publish"), **topic("b", "publish", "dispatch"), **topic("c", "publish")}
    [note] = unseen(rates)
    assert note.startswith("2 topics have no dispatch in this log, such as a: no dispatch limits for them.")
    assert not list(unseen(topic("b", "dispatch")))
