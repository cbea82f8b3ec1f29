"""Results survive JSON, and gaps in them are found."""

import json
import math
from dataclasses import replace

import pytest
from tests.reports.model.example import example

from sluicegate_reports.model.quantities import quantity
from sluicegate_reports.model.results import (
    VERSION,
    Arm,
    Cell,
    Chart,
    Point,
    Results,
    ResultsError,
    RunFacts,
    Series,
    Table,
    Threshold,
    from_json,
    to_json,
)
from sluicegate_reports.model.verdict import Verdict, worst
from sluicegate_reports.registry.arms import REFERENCE_LABEL
from sluicegate_reports.render.cells import of_chart, texts
from sluicegate_reports.render.missing import counted, gaps

_NOWHERE = RunFacts("r", "", "")


def test_results_survive_json() -> None:
    assert from_json(to_json(example())) == example()


def test_values_that_are_not_numbers_become_not_measured() -> None:
    cells = (Cell("p", "kafka", "proxy", Verdict.OFF, math.nan, math.inf),)
    (cell,) = from_json(to_json(Results(_NOWHERE, Verdict.OFF, cells))).matrix
    assert (cell.figure, cell.bound) == (None, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "Invalid JSON"),
        ("{}", "run: Field required"),
        ('{"run": 1, "verdict": "exact"}', "run"),
        ('{"run": {"run": "r", "scenario": "", "policies": ""}, "verdict": "fine"}', "verdict"),
    ],
)
def test_other_files_are_refused_with_the_place(text: str, said: str) -> None:
    with pytest.raises(ResultsError, match="sluicegate report compare") as refused:
        from_json(text)
    assert said in str(refused.value)


def test_a_later_version_is_refused() -> None:
    later = json.loads(to_json(example())) | {"version": VERSION + 1}
    with pytest.raises(ResultsError, match="install a newer one"):
        from_json(json.dumps(later))


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([Verdict.EXACT, Verdict.WITHIN, Verdict.NOT_APPLICABLE], Verdict.WITHIN),
        ([Verdict.MISSING, Verdict.WITHIN], Verdict.MISSING),
        ([Verdict.MISSING, Verdict.OFF, Verdict.EXACT], Verdict.OFF),
        ([], Verdict.MISSING),
    ],
)
def test_the_worst_verdict_is_the_verdict(verdicts: list[Verdict], expected: Verdict) -> None:
    assert worst(verdicts) is expected


def test_danube_is_the_reference_broker_unless_the_run_says_otherwise() -> None:
    assert _NOWHERE.arm("danube", "proxy").label == REFERENCE_LABEL
    assert _NOWHERE.label("danube") == REFERENCE_LABEL
    assert _NOWHERE.arm("kafka", "proxy").name == "kafka proxy"
    real = replace(_NOWHERE, arms=(Arm("danube", "proxy"),))
    assert real.arm("danube", "proxy").name == "danube proxy"


def test_a_measure_that_is_missing_passes_no_threshold() -> None:
    threshold = Threshold("lost_messages", 0, None, False)
    assert not threshold.against(1e9).passed
    assert Threshold("off_cells", 0, 2, False).against(2).passed
    assert not Threshold("off_cells", 5, 2, True).against(1.5).passed


def test_every_gap_is_reported_once() -> None:
    results = example()
    assert gaps(results) == (
        *results.notes,
        "danube proxy (reference broker, not Danube): danube-client is not installed: "
        "pip install sluicegate[danube]",
        "pulsar native, fixed_delivery_delay: the observations of this arm end before the first delivery",
    )
    assert counted(results).startswith(
        "through gates 3 not played, 5 within bound, 4 exact; "
        "natively 2 off, 1 missing, 2 exact, 1 not applicable; "
    )


def test_a_cell_absent_from_the_results_is_missing() -> None:
    cells = (
        Cell("size", "kafka", "proxy", Verdict.EXACT, 1.0),
        Cell("rate", "pulsar", "proxy", Verdict.EXACT, 1.0),
        Cell("rate", "kafka", "proxy", Verdict.MISSING),
    )
    assert gaps(Results(_NOWHERE, Verdict.EXACT, cells)) == (
        "kafka proxy, rate: not measured, and the results do not say why",
        "pulsar proxy, size: the results say nothing of it",
    )


def test_rows_name_the_reference_broker_with_and_without_a_door() -> None:
    by_door = Table(("system", "door", "n"), (("danube", "native", 1), ("kafka", "native", None)))
    assert [[text for text, _ in row] for row in texts(by_door, example().run, 9)] == [
        ["danube (reference broker, not Danube)", "native", "1"],
        ["kafka (nearest)", "native", "not measured"],
    ]
    by_system = Table(("n", "system"), ((True, "danube"),))
    assert [[text for text, _ in row] for row in texts(by_system, example().run, 9)] == [
        ["yes", "danube (reference broker, not Danube)"]
    ]


def test_a_chart_without_rows_of_its_own_gets_its_points() -> None:
    points = (Point(0, 1.0, 0.5, 2.0), Point(1, None))
    chart = Chart("m", "ms", "", (Series("kafka", "proxy", points, "c1"),), categories=("first", "second"))
    table = of_chart(chart)
    assert table.columns == ("system", "door", "series", "of", "value (ms)", "low (ms)", "high (ms)")
    assert table.rows == (
        ("kafka", "proxy", "c1", "first", 1.0, 0.5, 2.0),
        ("kafka", "proxy", "c1", "second", None, None, None),
    )


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "ms", "not measured"),
        (math.nan, "", "not measured"),
        (0, "ns", "0 ns"),
        (1_800_000, "ns", "1.8 ms"),
        (0.25, "s", "250 ms"),
        (-420, "us", "-420 µs"),
        (10 * 2**20, "bytes", "10 MiB"),
        (1500, "bytes/s", "1.465 KiB/s"),
        (1234567, "messages", "1,234,567 messages"),
        (999.96, "messages/s", "1,000 messages/s"),
        (0.123456, "%", "0.1235 %"),
        (3, "", "3"),
        (1.5e15, "messages", "1.50e+15 messages"),
        (0.00001234, "", "1.23e-05"),
    ],
)
def test_quantities_have_few_digits_and_fitting_units(value: float | None, unit: str, text: str) -> None:
    assert quantity(value, unit) == text
