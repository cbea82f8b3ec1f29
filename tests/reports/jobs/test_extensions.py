"""A system, a door, a policy and a metric that only an entry point adds take part in a comparison."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.reports.planted.book import LENGTH_S, RATE, Book, Message
from tests.reports.registry.river import METRIC, install, installed

from sluicegate_reports import registry
from sluicegate_reports.commands.fail_on import decisive
from sluicegate_reports.jobs.compare import compare_run
from sluicegate_reports.model.differences import difference
from sluicegate_reports.model.results import Results, to_json
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.render.markdown import markdown
from sluicegate_reports.render.page import page

BARGES = "max_barge_rate"


def _book(system: str) -> Book:
    """A perfect gate whose messages overtake each other, and producers of whom the third is turned away."""
    book = Book()
    arm = {"system": system, "door": "lock"}
    every_us = 1_000_000 // RATE
    messages = [
        # Two calls at a time are under way at once, and the later one is received first.
        Message(
            number,
            number // 2 * 2 * every_us + number % 2,
            arrivals=(number // 2 * 2 * every_us + 9_000 - number % 2 * 4_000,),
        )
        for number in range(LENGTH_S * RATE)
    ]
    book.tries(BARGES if system == "river" else "max_publish_rate", RATE, "t", **arm, saturated=False)
    book.publishes("t", BARGES, messages, **arm)
    bank = {"system": system, "door": "bank"}
    book.tries("max_producers_per_topic", 2, "crowd", **bank)
    refused = {"event": "attach_refused", "code": "LOCK_FULL"}
    book.attaches("crowd", [{}, {}, refused], **bank)
    return book


@pytest.fixture(scope="module")
def river(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    directory = tmp_path_factory.mktemp("river")
    for _ in installed(tmp_path_factory.mktemp("package")):
        _book("river").write(directory)
        yield compare_run(spark, directory)


def _verdicts(results: Results) -> dict[tuple[str, str], Verdict]:
    return {(cell.policy, cell.door): cell.verdict for cell in results.matrix}


def test_a_registered_policy_is_judged_at_its_door(river: Results) -> None:
    (cell,) = [cell for cell in river.matrix if (cell.policy, cell.door) == (BARGES, "lock")]
    assert cell.verdict is Verdict.EXACT, cell.text
    (section,) = [section for section in river.sections if section.policy == BARGES]
    assert section.charts
    assert {threshold.name: threshold.passed for threshold in river.thresholds}["rate_error_percent"]


def test_registered_codes_name_the_policy_that_refused(river: Results) -> None:
    assert _verdicts(river)["max_producers_per_topic", "bank"] is Verdict.EXACT
    refusals = river.tables()["max_producers_per_topic refusals"]
    assert [row[refusals.columns.index("refused by")] for row in refusals.rows] == ["max_producers_per_topic"]


def test_overlapping_calls_have_no_order_at_a_registered_door(river: Results) -> None:
    table = river.tables()["delivery"]
    assert [row[table.columns.index("reordered")] for row in table.rows] == [0]


def test_the_page_shows_a_registered_system_without_calling_it_unknown(river: Results) -> None:
    assert "river" in page(river)
    assert [note for note in river.notes if "registered" in note] == []


def test_an_unregistered_system_is_named(spark: SparkSession, tmp_path: Path) -> None:
    _book("creek").write(tmp_path)
    results = compare_run(spark, tmp_path)
    assert any(note.startswith("creek: no registered system") for note in results.notes)
    assert _verdicts(results)["max_publish_rate", "lock"] is Verdict.OFF  # overtaken messages count there


def test_a_metric_adds_one_transform_one_rule_and_one_row(spark: SparkSession, tmp_path: Path) -> None:
    run = tmp_path / "run"
    _book("kafka").write(run)
    before = compare_run(spark, run)
    with pytest.MonkeyPatch.context() as monkeypatch:
        install(tmp_path, METRIC, monkeypatch, module="barges")
        after = compare_run(spark, run)
    registry.forget()

    table = after.tables()["max_publish_rate figures"]
    assert {row[table.columns.index("largest barge (bytes)")] for row in table.rows} == {100}
    (cell,) = [cell for cell in after.matrix if (cell.policy, cell.door) == ("max_publish_rate", "lock")]
    assert (cell.verdict, "the largest barge had 100 bytes" in cell.text) == (Verdict.OFF, True)
    (threshold,) = [each for each in after.thresholds if each.name == "largest_barge_bytes"]
    assert (threshold.measured, threshold.passed, threshold.unit) == (100, False, "bytes")
    assert decisive(after.thresholds, [("largest_barge_bytes", 120.0)])["largest_barge_bytes"].passed
    assert "largest barge" in page(after)
    assert "largest barge" in markdown(after)
    assert "largest_barge_bytes" in to_json(difference(before, after)).decode()
    assert "largest_barge_bytes" not in {each.name for each in before.thresholds}
    # It changes nothing else: not one figure of the others.
    others = [place for place, name in enumerate(table.columns) if name != "largest barge (bytes)"]
    known = before.tables()["max_publish_rate figures"]
    assert [table.columns[place] for place in others] == list(known.columns)
    verdict = known.columns.index("verdict")
    others_of_rows = [tuple(row[place] for place in others) for row in table.rows]
    assert [(*row[:verdict], *row[verdict + 1 :]) for row in others_of_rows] == [
        (*row[:verdict], *row[verdict + 1 :]) for row in known.rows
    ]
