"""The page shows everything in the results, in order, and treats none of it as markup."""

import math
import re
from dataclasses import replace

import pytest
from tests.reports.model.example import example
from tests.reports.render.page.reading import Element, read

from sluicegate_reports.model.results import (
    Cell,
    Chart,
    Kind,
    Origin,
    Point,
    Results,
    RunFacts,
    Section,
    Series,
    Skew,
    Table,
    Threshold,
)
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.registry.arms import REFERENCE_LABEL
from sluicegate_reports.render.markdown import markdown
from sluicegate_reports.render.page import MAX_BYTES, page

_HOSTILE = "<script>alert('x')</script>&\"]]>"


@pytest.fixture(scope="module")
def shown() -> Element:
    return read(page(example()))


def test_the_verdict_comes_first_then_the_matrix_then_charts_then_all_figures(shown: Element) -> None:
    assert [section.attributes["id"] for section in shown.all("section")] == [
        *("matrix", "charts", "thresholds", "missing"),
        *("policy-1", "policy-2", "policy-3"),
        "facts",
    ]
    (header,) = shown.all("header")
    assert "✕ off" in header.text
    assert "2 of 4 thresholds passed" in header.text
    assert "#missing" in [link.attributes["href"] for link in header.all("a")]


def test_missing_measures_are_listed(shown: Element) -> None:
    (missing,) = [section for section in shown.all("section") if section.attributes["id"] == "missing"]
    assert "1 of 31 files was left out" in missing.text
    assert "danube-client is not installed" in missing.text
    assert "pulsar native, fixed_delivery_delay" in missing.text


def test_each_place_of_the_matrix_has_a_verdict_in_words(shown: Element) -> None:
    (matrix,) = shown.all("table", class_="matrix")
    body = matrix.all("tbody")[0].all("tr")
    assert len(body) == 3
    verdicts = {verdict.text for verdict in Verdict}
    for row in body:
        assert [len(row.all("th", scope="row")), len(row.all("td"))] == [1, 6]
        for cell in row.all("td"):
            assert any(verdict in cell.text for verdict in verdicts)
    assert "24 %" in body[1].all("td")[1].text


def test_every_link_leads_to_something_in_the_page(shown: Element) -> None:
    ids = [element.attributes["id"] for element in _every(shown) if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    links = [element.attributes["href"] for element in shown.all("a")]
    assert [link for link in links if link.removeprefix("#") not in ids] == []


def test_every_figure_has_a_caption_and_leads_to_its_rows(shown: Element) -> None:
    figures = shown.all("figure")
    assert len(figures) == 3
    tables = {table.attributes.get("id") for table in shown.all("table")}
    for figure in figures:
        (caption,) = figure.all("figcaption")
        links = caption.all("a")
        assert [link.text for link in links][-1] == "points"
        assert {link.attributes["href"].removeprefix("#") for link in links} <= tables


def test_figures_link_to_the_deciding_row_and_rows_to_their_files() -> None:
    lie = tuple(Origin("decisions/run=r/*.parquet", f"topic = 't{n}'") for n in range(300))
    rows = Table(("system", "messages"), tuple(("kafka", n) for n in range(300)), "figures", origins=lie)
    cells = (
        Cell("p", "kafka", "proxy", Verdict.OFF, 9.0, rows="figures", row=3),
        Cell("p", "kafka", "native", Verdict.OFF, 9.0, rows="figures", row=299),  # not shown in the page
    )
    threshold = Threshold("lost_messages", 0, 1, passed=False, rows="figures")
    series = Series("kafka", "proxy", (Point(0, 1),), origin=Origin("observations/*.parquet", "a < 'b'"))
    section = Section("p", "", (Chart("rate", "", "s", (series,), rows="figures"),), (rows,))
    results = Results(RunFacts("r", "", ""), Verdict.OFF, cells, (section,), (threshold,))
    shown = read(page(results))
    links = [cell.all("a")[0].attributes["href"] for cell in shown.all("table", class_="matrix")[0].all("td")]
    assert links == ["#policy-1-table-1-3", "#policy-1-table-1"]
    (row,) = shown.all("tr", id="policy-1-table-1-3")
    assert row.text == "kafka 3 Parquet"
    (origin,) = shown.all("li", id=row.all("a")[0].attributes["href"].removeprefix("#"))
    assert origin.text == "duckdb -c \"SELECT * FROM 'decisions/run=r/*.parquet' WHERE topic = 't3'\""
    assert "200 of 300 rows" in shown.all("details")[0].text
    (measured,) = shown.all("td", **{"data-name": "measured"})
    assert measured.all("a")[0].attributes["href"] == "#policy-1-table-1"
    assert "kafka proxy: duckdb -c \"SELECT * FROM 'observations/*.parquet' WHERE a < 'b'\"" in shown.text
    assert shown.all("header")[0].all("a")[0].attributes["href"] == "#matrix"


def test_clock_skews_name_their_evidence_and_a_long_list_is_cut() -> None:
    clocks = tuple(
        Skew(f"c{n}", "kafka", "proxy", 1500.0, 20.0, "main", f"{n + 7} messages", "gw-1") for n in range(70)
    )
    results = Results(RunFacts("r", "", "", skews=clocks), Verdict.EXACT)
    text = read(page(results)).text
    assert "c0 kafka proxy 1.5 ms ± 20 µs main gw-1 7 messages" in text
    assert "10 more are in the JSON form" in text
    assert "| c0 | kafka proxy | 1.5 ms | 20 µs | main | gw-1 | 7 messages |" in markdown(results)
    assert "50 of 70 rows" in markdown(results)


def test_every_drawing_and_table_has_a_text_alternative(shown: Element) -> None:
    for table in shown.all("table"):
        assert table.all("caption")[0].text
        assert table.all("th", scope="col")
    for drawing in shown.all("svg"):
        alternative = drawing.attributes.get("aria-labelledby") or drawing.attributes.get("aria-hidden")
        assert alternative or drawing.attributes.get("preserveaspectratio")


def test_each_series_differs_by_mark_or_dashes_and_not_by_colour_alone(shown: Element) -> None:
    for legend in shown.all("ul", class_="legend"):
        seen = []
        for item in legend.all("li"):
            if item.attributes.get("class") == "limit-text":
                continue
            (mark,) = item.all("use")
            seen.append((mark.attributes["href"], mark.attributes["class"]))
        assert len(seen) == len(set(seen))
        assert len(seen) in (0, 5)
        by_colour: dict[str, list[str]] = {}
        for href, style in seen:
            by_colour.setdefault(style.split()[1], []).append(href)
        assert all(len(marks) == len(set(marks)) for marks in by_colour.values())


def _names_danube(element: Element) -> bool:
    return re.search(r"\bdanube\b", element.text) is not None


def test_the_reference_broker_is_named_so_in_every_table_legend_and_list(shown: Element) -> None:
    named = [
        element
        for element in (*shown.all("table"), *shown.all("ul"), *shown.all("svg"))
        if _names_danube(element) and element.attributes.get("class") != "gaps"
    ]
    assert len(named) > 8
    for element in named:
        # The title of a drawing is read aloud with the caption, where the legend is.
        if element.name == "svg" and not element.all("text", class_="name c3"):
            continue
        assert REFERENCE_LABEL in element.text, element.text


def _every(element: Element) -> list[Element]:
    return [element, *(below for child in element.children for below in _every(child))]


def test_the_page_fetches_nothing_and_runs_nothing() -> None:
    text = page(example())
    assert re.findall(r"https?:|<script|@import|url\(|\son\w+=", text) == []


def test_text_from_the_results_is_never_markup() -> None:
    chart = Chart(_HOSTILE, _HOSTILE, _HOSTILE, (Series(_HOSTILE, _HOSTILE, (Point(0, 1),), _HOSTILE),), 1.0)
    results = Results(
        run=RunFacts(
            _HOSTILE, _HOSTILE, _HOSTILE, _HOSTILE, versions={_HOSTILE: _HOSTILE}, commands=(_HOSTILE,)
        ),
        verdict=Verdict.OFF,
        matrix=(Cell(_HOSTILE, _HOSTILE, _HOSTILE, Verdict.OFF, 1.0, 1.0, _HOSTILE, _HOSTILE, _HOSTILE),),
        sections=(
            Section(
                _HOSTILE,
                _HOSTILE,
                (
                    chart,
                    replace(chart, kind=Kind.HISTOGRAM, categories=(_HOSTILE,)),
                ),
                (Table((_HOSTILE, "system"), ((_HOSTILE, _HOSTILE),), _HOSTILE, _HOSTILE),),
            ),
        ),
        thresholds=(Threshold(_HOSTILE, 1, 1, True, _HOSTILE, _HOSTILE),),
        notes=(_HOSTILE,),
        summary=_HOSTILE,
    )
    text = page(results)
    assert "<script" not in text
    assert read(text).all("script") == []


def test_empty_results_are_reported_as_such() -> None:
    text = read(page(Results(RunFacts("r", "", ""), Verdict.MISSING))).text
    for said in ("No thresholds were set", "No policy was compared", "Scenario: the run does not tell"):
        assert said in text


def test_charts_without_points_or_numbers_are_drawn() -> None:
    points = {
        "none": (),
        "gaps": (Point(0, None), Point(1, math.nan)),
        "one": (Point(5, 0.0),),
        "negative": (Point(0, -5.0), Point(1, -1.0)),
        "huge": (Point(0, 1e300), Point(1, 1e-300)),
    }
    charts = tuple(
        Chart(f"{name} {kind} {log}", "ms", "s", (Series("kafka", "proxy", some),), 2.0, log, kind)
        for name, some in points.items()
        for kind in Kind
        for log in (False, True)
    )
    results = Results(RunFacts("r", "", ""), Verdict.OFF, sections=(Section("p", "", charts),))
    text = page(results)
    assert len(read(text).all("figure")) == len(charts)
    assert not re.search(r'"[^" ]*\b(nan|inf)\b', text)


def test_a_line_is_never_drawn_through_a_gap() -> None:
    points = (Point(0, 1.0), Point(1, 2.0), Point(2, None), Point(3, 2.0), Point(4, 1.0))
    chart = Chart("m", "", "s", (Series("kafka", "proxy", points),))
    results = Results(RunFacts("r", "", ""), Verdict.EXACT, sections=(Section("p", "", (chart,)),))
    lines = [path.attributes["d"] for path in read(page(results)).all("path", class_="line c1 d1-line")]
    assert [line.count("M") for line in lines] == [2]


def test_a_huge_page_stays_within_its_size_and_names_what_it_leaves_out() -> None:
    points = tuple(Point(x, math.sin(x) * 1e6) for x in range(5_000))
    rows = tuple(("kafka", "proxy", x, math.sin(x)) for x in range(5_000))
    section = Section(
        "p",
        "",
        tuple(
            Chart(f"m{n}", "B", "s", (Series("kafka", "proxy", points),) * 4, rows="rows") for n in range(20)
        ),
        (Table(("system", "door", "x", "y"), rows, "rows"),),
    )
    sections = tuple(replace(section, policy=f"p{n}") for n in range(2))
    text = page(Results(RunFacts("r", "x" * 300_000, ""), Verdict.EXACT, sections=sections))
    assert len(text.encode()) <= MAX_BYTES
    said = read(text).text
    assert "of 5,000 rows" in said
    assert "more characters are not shown" in said
    assert "points at most" in said


def test_charts_without_room_for_a_few_points_are_left_out_and_counted() -> None:
    chart = Chart("m", "B", "s", (Series("kafka", "proxy", (Point(0, 1), Point(1, 2))),))
    section = Section("p", "", (chart,) * 600)
    text = page(Results(RunFacts("r", "", ""), Verdict.EXACT, sections=(section,)))
    assert len(text.encode()) <= MAX_BYTES
    assert "600 charts are left out: the page would be too large" in text


def test_policies_and_tables_with_equal_names_have_different_ids() -> None:
    section = Section("p", "", (Chart("m", "", "", (), rows="t"),), (Table(("a",), ((1,),), "t"),) * 2)
    shown = read(page(Results(RunFacts("r", "", ""), Verdict.EXACT, sections=(section, section))))
    ids = [element.attributes["id"] for element in _every(shown) if "id" in element.attributes]
    assert len(ids) == len(set(ids))


def test_a_gates_cost_stands_beside_that_of_the_native_door(shown: Element) -> None:
    (matrix,) = (section for section in shown.all("section") if section.attributes["id"] == "matrix")
    costs = [small.text for small in matrix.all("small") if small.attributes.get("class") == "cost"]
    assert costs[:3] == ["2.9 / 7.4 ms, 910/s", "native 2.2 / 6.1 ms, 918/s", "2.2 / 6.1 ms, 918/s"]


def test_a_cell_has_the_first_part_of_a_reason_that_a_table_has_whole() -> None:
    cell = Cell("p", "kafka", "proxy", Verdict.OFF, text="far too much; and for too long")
    reasons = Section("Reasons", "", tables=(Table(("why",), ((cell.text,),), "reasons"),), overall=True)
    for sections, text in (((), cell.text), ((reasons,), "far too much; more")):
        shown = read(page(Results(RunFacts("r", "", ""), Verdict.OFF, (cell,), sections)))
        (place,) = shown.all("table", class_="matrix")[0].all("td")
        assert place.all("small")[-1].text == text
        links = [link.attributes["href"] for link in place.all("a")]
        assert links == ["#policy-1-table-1"] * len(sections)
