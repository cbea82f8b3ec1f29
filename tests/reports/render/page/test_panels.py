"""Small multiples, split tables and units, as they appear in the page."""

import re
from dataclasses import replace

from tests.reports.model.example import example
from tests.reports.render.page.reading import Element, read

from sluicegate_reports.model.quantities import together
from sluicegate_reports.model.results import (
    Cell,
    Chart,
    Kind,
    Point,
    Results,
    RunFacts,
    Section,
    Series,
    Table,
)
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.render.cells import scaled_columns
from sluicegate_reports.render.missing import cells, counted
from sluicegate_reports.render.page import page

_TIME = "s since the phase began"


def shown(*charts: Chart, tables: tuple[Table, ...] = ()) -> Element:
    section = Section("max_publish_rate", "", charts, tables)
    return read(page(Results(RunFacts("r", "", ""), Verdict.EXACT, sections=(section,))))


def rates(arm: str, level: float, peak_at: int, length: int = 6) -> tuple[Series, ...]:
    points = tuple(Point(x, 9 * level if x == peak_at else level) for x in range(length))
    asked = tuple(Point(x, 2 * level) for x in range(length))
    return Series(arm, "proxy", points, "admitted"), Series(arm, "proxy", asked, "offered")


def test_each_arm_has_a_panel_and_all_have_one_scale() -> None:
    series = (*rates("kafka", 100, 0), *rates("pulsar", 10, 0))
    page_ = shown(Chart("rate", "messages/s", _TIME, series, 50.0, panels=True))
    panels = page_.all("div", class_="panel")
    assert [panel.all("h4")[0].text for panel in panels] == ["kafka proxy", "pulsar proxy"]
    ticks = [[text.text for text in panel.all("text", class_="tick y")] for panel in panels]
    assert ticks[0] == ticks[1]
    for panel in panels:
        assert len(panel.all("path", class_="limit line")) == 1
        assert len(panel.all("path", class_="line second plain-line")) == 1
    (legend,) = page_.all("ul", class_="legend")
    assert legend.text == "admitted offered limit 50 messages/s across: s since the phase began"


def test_a_peak_of_one_second_in_an_hour_is_drawn_to_its_height() -> None:
    series = rates("kafka", 100, 1_777, 3_600)
    page_ = shown(Chart("rate", "messages/s", _TIME, series, panels=True))
    (line,) = page_.all("path", class_="line c1 plain-line")
    tops = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", line.attributes["d"])]
    assert min(tops) == 240 - 240 * 900 / 1000
    assert len(tops) < 500


def test_nothing_is_drawn_where_there_is_no_data() -> None:
    spread = [(0, 1, 5), (1, 2, 6), None, (3, 2, 7), None, (5, 1, 4), (6, 1, 4)]
    points = tuple(
        Point(x, None) if ends is None else Point(x, ends[1], ends[1], ends[2])
        for x, ends in enumerate(spread)
    )
    for panels in (True, False):
        page_ = shown(Chart("latency", "ms", _TIME, (Series("kafka", "proxy", points),), panels=panels))
        (band,) = page_.all("path", class_="band c1")
        areas = band.attributes["d"].split("Z")[:-1]
        assert [len(re.findall(r"[ML]", area)) for area in areas] == [4, 2, 4]
        reach = [{float(x) for x in re.findall(r"[ML]([\d.]+) ", area)} for area in areas]
        assert reach == [{0, 166.7}, {500}, {833.3, 1000}]
        (line,) = page_.all("path", class_=f"line c1 {'plain' if panels else 'd1'}-line")
        assert line.attributes["d"].count("M") == 3
        # A single second has neither line nor area: a dot shows it.
        dots = [path.attributes["d"] for path in page_.all("path", class_="lone c1")]
        assert [re.findall(r"M([\d.]+) [\d.]+h0", dot) for dot in dots] == ([["500"]] if panels else [])


def test_a_histogram_has_a_column_for_each_interval_with_messages() -> None:
    points = (Point(0, 20.0), Point(1, 0.0), Point(2, 80.0))
    names = ("0 to 5 ms", "5 to 10 ms", "10 to 20 ms")
    chart = Chart(
        *("late", "%", "ms", (Series("kafka", "proxy", points),)),
        kind=Kind.HISTOGRAM,
        categories=names,
        panels=True,
    )
    page_ = shown(chart)
    (columns,) = page_.all("path", class_="histo c1")
    assert columns.attributes["d"].count("Z") == 2
    assert [text.text for text in page_.all("text", class_="tick x")] == ["0", "5", "10"]


def wide() -> Table:
    names = tuple(f"measure {n}" for n in range(17))
    columns = ("system", "door", "phase", "topic", "limit (bytes/s)", "seen by", *names, "verdict")
    first = ("kafka", "proxy", "calm", "t", 153_600, "log", *range(16), None, "exact")
    second = ("kafka", "native", "calm", "t", 153_600, "clients", *[None] * 17, "not applicable")
    return Table(columns, (first, second), "figures", "All figures")


def test_a_wide_table_is_split_and_loses_nothing() -> None:
    (details,) = shown(tables=(wide(),)).all("details")
    tables = details.all("table")
    assert len(tables) == 3
    heads = [[cell.text for cell in table.all("th", scope="col")] for table in tables]
    assert all(len(head) <= 8 for head in heads)
    assert all(head[0] == "system, door, phase, topic, seen by" for head in heads)
    columns = [name for head in heads for name in head[1:]]
    assert columns == ["limit (KiB/s)", *(f"measure {n}" for n in range(16)), "verdict"]
    assert "Not measured in any row: measure 16." in details.text
    figures = [cell.text for table in tables for cell in table.all("tr")[1].all("td")]
    assert figures == ["150", *map(str, range(16)), "exact"]


def test_not_applicable_rows_are_mentioned_once() -> None:
    table = wide()
    several = replace(table, rows=(*table.rows, table.rows[1]))
    (details,) = shown(tables=(several,)).all("details")
    assert re.findall("(?i)not applicable[^.]*", details.text) == ["Not applicable: kafka native"]
    assert details.text.count("not measured") == 0
    assert [len(each.all("tbody")[0].all("tr")) for each in details.all("table")] == [1, 1, 1]


def test_the_reason_for_not_applicable_appears_once() -> None:
    why = "Kafka's quotas count bytes, not messages"
    matrix = tuple(Cell(p, "kafka", "native", Verdict.NOT_APPLICABLE, text=why) for p in ("a", "b"))
    text = read(page(Results(RunFacts("r", "", ""), Verdict.EXACT, matrix))).text
    assert text.count(why) == 1
    assert "kafka native: a, b" in text


def test_columns_are_in_the_units_of_charts_and_shares_are_percents() -> None:
    table = Table(
        ("limit (bytes/s)", "worst (share)", "none (ms)"), ((153_600, 0.0125, None), (1.5, 0, None))
    )
    fitted = scaled_columns(table)
    assert fitted.columns == ("limit (KiB/s)", "worst (%)", "none (ms)")
    assert fitted.rows[0] == (150.0, 1.25, None)
    rows = (("worst above (share)", -0.05, 0.01), ("first second (bytes)", 2_048, None), ("Jain", 0.5, 1))
    by_row = scaled_columns(Table(("policy", "measure", "gate", "native"), tuple(("p", *r) for r in rows)))
    assert [row[1:] for row in by_row.rows] == [
        ("worst above (%)", -5, 1),
        ("first second (KiB)", 2, None),
        ("Jain", 0.5, 1),
    ]
    assert together([154.7, 1_000.0], "ms") == ["154.7 ms", "1,000 ms"]
    assert together([0.0, 2_000.0, None], "bytes") == ["0 KiB", "1.953 KiB", "not measured"]


def test_counts_in_the_headline_are_those_of_the_thresholds() -> None:
    results = example()
    parts = counted(results).split("; ")
    gates, native = parts[0], parts[1]
    matrix = cells(results).values()
    off = sum(cell.verdict is Verdict.OFF for cell in matrix if cell.door != "native")
    assert f"{off} off" in gates or (not off and "off" not in gates)
    numbers = [int(n) for part in (gates, native) for n in re.findall(r"(\d+) missing", part)]
    assert sum(numbers) == sum(cell.verdict is Verdict.MISSING for cell in matrix)
    more = replace(results, matrix=tuple(replace(cell, verdict=Verdict.OFF) for cell in results.matrix))
    assert counted(more).startswith(f"through gates {sum(c.door != 'native' for c in more.matrix)} off")
