"""The bar of a long job."""

from io import StringIO

from rich.console import Console

from sluicegate_reports.progress import tell, working


def test_a_terminal_is_shown_how_far_a_job_is() -> None:
    text = StringIO()
    with working("comparing", Console(file=text, force_terminal=True, width=80)):
        tell(3, 12)
    assert "comparing" in text.getvalue()
    assert "3/12" in text.getvalue()


def test_what_is_no_terminal_gets_nothing() -> None:
    text = StringIO()
    with working("comparing", Console(file=text, force_terminal=False, width=80)):
        tell(3, 12)
    assert text.getvalue() == ""


def test_a_job_may_tell_though_there_is_no_bar() -> None:
    tell(1, 2)
