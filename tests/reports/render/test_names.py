"""Hostile names of topics and principals are shown as text in HTML, in a terminal and in Markdown."""

import re
from io import StringIO

from hypothesis import given
from hypothesis import strategies as st
from tests.reports.render.page.reading import read

from sluicegate.model import visible
from sluicegate.output.console import Console
from sluicegate_reports.model.results import (
    Arm,
    Cell,
    Chart,
    Origin,
    Point,
    Results,
    RunFacts,
    Section,
    Series,
    Table,
    from_json,
    of_log,
    to_json,
)
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.render.markdown import markdown
from sluicegate_reports.render.page import page
from sluicegate_reports.render.terminal import show

_PARTS = (
    "<script>x</script>",
    "\x1b[2J",
    "\n",
    ",",
    "|",
    "`",
    "<b>",
    '"',
    "'",
    "&",
    "\u202e",
    "](x)",
    "\x9b1m",
)
_NAMES = (
    st.lists(st.sampled_from(_PARTS) | st.text(max_size=3), min_size=1, max_size=6)
    .map("".join)
    .map(lambda text: text.encode("utf-8", "replace").decode())
)


def results(name: str) -> Results:
    chart = Chart("rate", "messages/s", "s", (Series("kafka", name, (Point(0, 1.0),), name),), panels=True)
    columns = ("system", "door", "topic", *(f"c{n}" for n in range(8)))
    rows = (("kafka", "proxy", name, *range(8)),)
    tables = (
        Table(columns, rows, "t", origins=(Origin("p", f"topic = '{name}'"),)),
        Table(("a",), ((name,),)),
    )
    return Results(
        run=RunFacts("r", "", "", title=name, arms=(Arm("kafka", "proxy", name),)),
        verdict=Verdict.OFF,
        matrix=(Cell("max_publish_rate", "kafka", "proxy", Verdict.MISSING, text=name),),
        sections=(Section("max_publish_rate", name, (chart,), tables),),
        notes=(f"{name}: left out",),
    )


def controls(text: str) -> list[str]:
    return re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]", text)


def console(text: StringIO) -> Console:
    return Console(file=text, width=400, no_color=True)


@given(_NAMES)
def test_a_page_shows_any_name_as_text(name: str) -> None:
    text = page(results(name))
    assert "<script" not in text
    assert controls(text) == []
    shown = read(text)
    assert shown.all("b") == []
    assert " ".join(visible(name).split()) in shown.all("h1")[0].text


@given(_NAMES)
def test_names_never_control_a_terminal(name: str) -> None:
    text = StringIO()
    show(results(name), console(text))
    assert controls(text.getvalue()) == []


@given(_NAMES)
def test_names_never_break_rows_or_add_markup_in_markdown(name: str) -> None:
    text = markdown(results(name))
    assert controls(text) == []
    assert re.findall(r"(?<!\\)<", text) == []
    rows = [line for line in text.splitlines() if line.startswith("| kafka | proxy |")]
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [12] or not rows


@given(_NAMES)
def test_json_keeps_any_name_as_it_is(name: str) -> None:
    assert from_json(to_json(results(name))) == results(name)


@given(_NAMES)
def test_findings_of_a_log_show_any_name_as_text(name: str) -> None:
    findings = of_log(name, name, {name: name}, (Table(("topic", name), ((name, 1),)),), (name,))
    text = StringIO()
    show(findings, console(text))
    assert controls(text.getvalue()) == []
    assert controls(markdown(findings)) == []
    made = page(findings)
    assert controls(made) == []
    assert "<script" not in made
    assert from_json(to_json(findings)) == findings
