"""The bar of a long job."""

from io import StringIO

from sluicegate.output.console import Console
from sluicegate_reports.spark.progress import tell, working


def test_a_terminal_shows_the_progress_of_a_job() -> None:
    text = StringIO()
    with working("comparing", Console(file=text, force_terminal=True, width=80)):
        tell(3, 12)
    assert "comparing" in text.getvalue()
    assert "3/12" in text.getvalue()


def test_output_that_is_not_a_terminal_gets_no_progress() -> None:
    text = StringIO()
    with working("comparing", Console(file=text, force_terminal=False, width=80)):
        tell(3, 12)
    assert text.getvalue() == ""


def test_a_job_may_report_progress_without_a_bar() -> None:
    tell(1, 2)
