"""The charts of a play as text."""

from tests.demo.first_minute.plays import END, played

from sluicegate.demo.first_minute.plotting import plot, rounded_up
from sluicegate.demo.first_minute.record import Record


def drawn(record: Record, until: float, *, width: int = 80, plain: bool = True) -> list[str]:
    """The lines of a chart."""
    return [line.plain for line in plot(record, until, END, width, plain)]


def test_the_hill_of_the_latency_and_the_limit_of_the_rate_are_seen() -> None:
    lines = drawn(played(), END)
    assert lines[0] == "the neighbour's latency in ms: # p50, : p99"
    assert lines[1].startswith("  1,000 |")
    hill = lines[1].removeprefix("  1,000 |")
    assert (hill.index("#") // 2, hill.rindex("#") // 2) == (10, 19)  # two columns for each second
    rate = lines[9].partition("|")[2]
    assert set(rate[20:40]) == {"#"}
    assert set(rate[40:]) == {":"}
    assert lines[-1].split() == ["alone", "^", "the", "noise", "^", "the", "command"]
    assert lines[-1].index("^") - 9 == 20
    assert "".join(lines).isascii()


def test_each_line_fits_and_a_long_play_has_seconds_that_share_a_column() -> None:
    for width in (60, 80, 100):
        for until in (0.0, 12.0, END, 200.0):
            assert max(len(line.rstrip()) for line in drawn(played(), until, width=width)) <= max(width, 60)


def test_before_anything_is_measured_the_chart_is_empty() -> None:
    lines = drawn(Record(0.0), 0.0, plain=False)
    assert lines[1].strip() == "10 │"
    assert len(lines) == 14


def test_an_axis_ends_with_a_round_number() -> None:
    assert [rounded_up(value) for value in (0, 11, 45, 1_000, 1_001, 2_042)] == [10, 12, 50, 1000, 1200, 2500]
