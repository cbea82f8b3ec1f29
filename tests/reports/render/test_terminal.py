"""The summary in a terminal and the report as Markdown."""

import re
from dataclasses import replace
from io import StringIO

import pytest
from tests.reports.model.example import example

from sluicegate.output.console import Console
from sluicegate_reports.model.results import Arm, Cell, Results, RunFacts, Section, Table, Threshold
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.registry.arms import REFERENCE_LABEL
from sluicegate_reports.render.markdown import markdown
from sluicegate_reports.render.missing import NOTHING
from sluicegate_reports.render.terminal import show


def printed(results: Results, width: int) -> str:
    text = StringIO()
    show(results, Console(file=text, width=width))
    return text.getvalue()


def words(text: str) -> str:
    """A text without the frames of its tables, white space made single."""
    return " ".join(re.sub(r"[│╭╮╰╯├┤┬┴┼─]", " ", text).split())


@pytest.mark.parametrize("width", [70, 80, 120, 150, 200])
def test_everything_that_matters_is_printed_at_every_width(width: int) -> None:
    text = printed(example(), width)
    assert max(len(line) for line in text.splitlines()) <= width
    flowing = words(text)
    for said in ("✕ off", "2 of 4 thresholds passed", "✕ failed", "✓ passed", "24 %", "≈ within bound"):
        assert said in flowing
    framed = [line for line in text.splitlines() if line.startswith(("│", "╭", "├", "╰"))]
    assert {line[-1] for line in framed} == set("│╮┤╯"), "a table is cut off"
    assert "danube-client is not installed" in flowing
    assert (text.count("? missing"), text.count("· not played")) == (1, 3)


@pytest.mark.parametrize("width", [80, 150])
def test_the_reference_broker_is_named_so_in_the_matrix(width: int) -> None:
    matrix = printed(example(), width).split("Each policy on each system")[1]
    assert "danube" in matrix
    # Of a column's head the lines lie apart; so its words are looked for in their order.
    assert re.search(r"reference.*broker,.*not.*Danube", words(matrix))


def test_a_narrow_terminal_gets_a_line_for_each_arm() -> None:
    wide, narrow = printed(example(), 150), printed(example(), 80)
    assert "system and door" not in wide
    assert "system and door" in narrow
    assert narrow.count("kafka native (nearest)") == 3


def test_order_is_verdict_thresholds_missing_matrix() -> None:
    text = printed(example(), 150)
    places = [text.index(part) for part in ("✕ off:", "Thresholds", "What is missing", "Each policy on each")]
    assert places == sorted(places)


def test_complete_results_say_that_nothing_is_missing() -> None:
    whole = Results(
        RunFacts("r", "", "", arms=(Arm("kafka", "proxy"),)),
        Verdict.EXACT,
        (Cell("p", "kafka", "proxy", Verdict.EXACT, 1.0),),
    )
    assert NOTHING in printed(whole, 100)
    assert NOTHING in markdown(whole)


def test_results_without_anything_are_printed() -> None:
    text = printed(Results(RunFacts("r", "", ""), Verdict.MISSING), 100)
    assert "? missing: Not everything could be measured" in text


def test_brackets_in_texts_are_printed_as_they_are() -> None:
    results = replace(example(), notes=("[bold]no markup[/bold]",))
    assert "[bold]no markup[/bold]" in printed(results, 150)


def tables(text: str) -> list[list[list[str]]]:
    """Rows of all tables of a Markdown text."""
    by_table: list[list[list[str]]] = []
    before = ""
    for line in text.splitlines():
        if line.startswith("|"):
            if not before.startswith("|"):
                by_table.append([])
            by_table[-1].append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        before = line
    return by_table


def test_markdown_has_rows_as_long_as_their_heads() -> None:
    written = tables(markdown(example()))
    assert len(written) == 9
    assert ["client", "arm", "client minus gate"] in [rows[0][:3] for rows in written]
    for rows in written:
        assert {len(row) for row in rows} == {len(rows[0])}


def test_markdown_names_the_reference_broker_in_every_table() -> None:
    texts = [[cell for row in rows for cell in row] for rows in tables(markdown(example()))]
    named = [cells for cells in texts if any("danube" in cell for cell in cells)]
    assert len(named) >= 5
    for cells in named:
        assert any(REFERENCE_LABEL in cell for cell in cells)


def test_markdown_says_how_many_rows_it_leaves_out() -> None:
    assert "50 of 300 rows; all of them are in the JSON form." in markdown(example())


def test_text_cannot_break_out_of_markdown() -> None:
    hostile = "a|b\n| c | <b> `x` [l](u)"
    results = Results(
        RunFacts("r", "```\nfence", "````"),
        Verdict.OFF,
        (Cell(hostile, "kafka", "proxy", Verdict.OFF, 1.0, text=hostile),),
        (Section(hostile, hostile, (), (Table((hostile,), ((hostile,),)),)),),
        (Threshold(hostile, 1, 1, True, text=hostile),),
        (hostile,),
    )
    text = markdown(results)
    for rows in tables(text):
        assert {len(row) for row in rows} == {len(rows[0])}
    assert "<b>" not in text.replace("\\<b\\>", "")
    assert "````\n```\nfence\n````" in text
    assert "`````\n````\n`````" in text
