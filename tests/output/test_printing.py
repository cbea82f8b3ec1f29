"""What commands print does not control the terminal."""

import json

import pytest
from tests.output import HOSTILE, SHOWN

from sluicegate.model import visible, visible_json
from sluicegate.output import echo, echo_document, echo_json


def test_a_line_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    echo(f"topic {HOSTILE}", "next", "")
    echo(HOSTILE, err=True)
    printed = capsys.readouterr()
    assert printed.out == f"topic {SHOWN}\nnext\n\n"
    assert printed.err == f"{SHOWN}\n"


def test_a_document_keeps_its_lines_and_tabs_alone(capsys: pytest.CaptureFixture[str]) -> None:
    echo_document("a:\n\tb \x1b[0m\x9b\r\n")
    echo_document("end")
    assert capsys.readouterr().out == "a:\n\tb \\x1b[0m\\x9b\\r\nend\n"


def test_json_stays_json(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"topic": HOSTILE, "name": "orders ü €"}
    echo_json(value)
    printed = capsys.readouterr().out
    assert visible(printed, keep="\n") == printed
    assert json.loads(printed) == value
    raw = json.dumps(value, ensure_ascii=False)
    assert json.loads(visible_json(raw)) == value
    assert visible(visible_json(raw)) == visible_json(raw)


@pytest.mark.parametrize("text", ["", "orders.created", "Bücher 📚", "注文", "a b"])
def test_text_that_controls_nothing_stays_as_it_is(text: str) -> None:
    assert visible(text) == text
    assert visible_json(text) == text
