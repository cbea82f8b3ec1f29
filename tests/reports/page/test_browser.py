"""The page in a real Chromium: both schemes, a desk's width and a telephone's, and paper."""

import re
from pathlib import Path

import pytest
from tests.reports.page.browser import Seen, find_browser, look, printed
from tests.reports.page.crowded import crowded
from tests.reports.results.example import example

from sluicegate_reports.page import page
from sluicegate_reports.results import Results

_PAPER = {"light": bytes.fromhex("fcfcfa"), "dark": bytes.fromhex("14171b")}


@pytest.fixture(scope="module")
def browser() -> str:
    return find_browser()


def fits(seen: Seen, results: Results, width: int) -> None:
    """All parts are there, nothing lies beyond the edge, no text over another, no word in the console."""
    policies = [f"policy-{index + 1}" for index in range(len(results.sections))]
    measured = seen.measured
    assert seen.console == []
    assert measured["sections"].split() == ["thresholds", "missing", "matrix", *policies, "facts"]
    assert measured["width"] == str(width)
    assert measured["content"] == str(width), measured["beyond"]
    assert measured["beyond"] == ""
    assert measured["over"] == ""
    assert int(measured["drawings"]) > 20


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_is_whole_and_fits(browser: str, tmp_path: Path, scheme: str, width: int) -> None:
    seen = look(browser, page(example()), tmp_path, scheme, width)
    fits(seen, example(), width)
    colours = seen.pixels.colours()
    assert max(colours, key=lambda colour: colours[colour]) == _PAPER[scheme]
    assert len(colours) > 50, "blank, or nearly"


@pytest.mark.parametrize("width", [1280, 660, 360])
def test_a_crowded_page_fits_too(browser: str, tmp_path: Path, width: int) -> None:
    fits(look(browser, page(crowded()), tmp_path, "light", width, height=200), crowded(), width)


def test_what_does_not_fit_is_noticed(browser: str, tmp_path: Path) -> None:
    """The probe is no test if it finds nothing in a page that is too wide, with texts over each other."""
    bad = (
        '<!doctype html><html><head></head><body><p style="width:3000px">wide</p>'
        '<svg><text y="20">one</text><text y="20">other</text></svg><script>nothing.here()</script>'
        "</body></html>"
    )
    seen = look(browser, bad, tmp_path, "light", 600)
    assert int(seen.measured["content"]) > 2900
    assert "P." in seen.measured["beyond"]
    assert seen.measured["over"] == "one|other"
    assert len(seen.console) == 1


def test_the_page_can_be_printed(browser: str, tmp_path: Path) -> None:
    paper = printed(browser, page(example()), tmp_path)
    assert paper.startswith(b"%PDF-")
    pages = max(int(count) for count in re.findall(rb"/Count (\d+)", paper))
    assert 3 <= pages <= 12
