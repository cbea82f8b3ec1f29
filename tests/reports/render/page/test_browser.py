"""The page in a real Chromium: both colour schemes, a wide and a narrow screen, and print."""

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import ARTEFACTS
from tests.reports.model.example import example
from tests.reports.render.page.browser import Seen, find_browser, look, printed
from tests.reports.render.page.crowded import crowded

from sluicegate_reports.model.results import Results, Section, Table
from sluicegate_reports.render.page import page

pytestmark = pytest.mark.slow

_SCREEN = 700
"""Height of the first screen of a laptop and of a telephone."""
_PAPER = {"light": (0xFC, 0xFC, 0xFA), "dark": (0x14, 0x17, 0x1B)}


@pytest.fixture(scope="module")
def browser() -> str:
    return find_browser()


def fits(seen: Seen, results: Results, width: int) -> None:
    """All parts are there, nothing lies beyond the edge, no text over another, no word in the console."""
    policies = [f"policy-{index + 1}" for index in range(len(results.sections))]
    measured = seen.measured
    assert seen.console == []
    assert measured["sections"].split() == [
        *("matrix", "charts", "thresholds", "missing"),
        *policies,
        "facts",
    ]
    assert measured["width"] == str(width)
    assert measured["content"] == str(width), measured["beyond"]
    assert measured["beyond"] == ""
    assert measured["over"] == ""
    assert int(measured["drawings"]) > 20


def keep(folder: Path) -> None:
    """Keep screenshots and PDF where CI keeps what a run leaves behind, if it names a folder."""
    if ARTEFACTS in os.environ:
        kept = Path(os.environ[ARTEFACTS]) / "page"
        kept.mkdir(parents=True, exist_ok=True)
        for file in (*folder.glob("*.png"), *folder.glob("*.pdf")):
            shutil.copy(file, kept / file.name)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_complete_and_fits(browser: str, tmp_path: Path, scheme: str) -> None:
    both = look(browser, page(example()), tmp_path, scheme, (1280, 390), 1600)
    keep(tmp_path)
    for seen, width in zip(both, (1280, 390), strict=True):
        fits(seen, example(), width)
        colours = seen.pixels.getcolors(seen.pixels.width * seen.pixels.height) or []
        assert max(colours)[1] == _PAPER[scheme]
        assert len(colours) > 50, "blank, or nearly"
        assert int(seen.measured["matrix"]) < _SCREEN, "a reader has to scroll to the matrix"


def test_a_crowded_page_fits_too(browser: str, tmp_path: Path) -> None:
    widths = (1280, 660, 360)
    for seen, width in zip(
        look(browser, page(crowded()), tmp_path, "light", widths, 200), widths, strict=True
    ):
        fits(seen, crowded(), width)


def test_the_check_notices_content_that_does_not_fit(browser: str, tmp_path: Path) -> None:
    """The probe is no test if it finds nothing in a page that is too wide, with texts over each other."""
    bad = (
        '<!doctype html><html><head></head><body><p style="width:3000px">wide</p>'
        '<svg><text y="20">one</text><text y="20">other</text></svg><script>nothing.here()</script>'
        "</body></html>"
    )
    (seen,) = look(browser, bad, tmp_path, "light", (600,))
    assert int(seen.measured["content"]) > 2900
    assert "P." in seen.measured["beyond"]
    assert seen.measured["over"] == "one|other"
    assert len(seen.console) == 1


def test_print_layout_neither_folds_nor_cuts(browser: str, tmp_path: Path) -> None:
    """With the rules for paper on a screen as wide as A4's text: even a table of 23 columns fits."""
    columns: tuple[str, ...] = ("system", "door", "phase", "topic", "limit (bytes/s)", "seen by")
    columns = (*columns, "told", "refused by", *(f"wrongly refused {n}" for n in range(15)))
    row = ("pulsar", "native", "loaded", "persistent://public/default/weighed", 1e6, "clients")
    row = (*row, "PolicyViolationError", "max_producers_per_topic", *range(15))
    wide = Table(columns, (row,) * 12, "wide", "All figures")
    section = Section("max_publish_rate_bytes", "", tables=(wide,))
    results = replace(crowded(), sections=(section, *example().sections))
    paper = page(results).replace("@media print", "@media all")
    (seen,) = look(browser, paper, tmp_path, "light", (688,), 1200)
    (tmp_path / "light.png").rename(tmp_path / "paper.png")
    keep(tmp_path)
    assert seen.measured["unfolded"] == "true"
    assert int(seen.measured["policies"]) >= 60, "names of policies are broken into letters"
    assert int(seen.measured["content"]) <= 688, seen.measured["beyond"]
    assert seen.measured["broken"] == ""


def test_the_page_can_be_printed(browser: str, tmp_path: Path) -> None:
    paper = printed(browser, page(example()), tmp_path)
    keep(tmp_path)
    assert paper.startswith(b"%PDF-")
    pages = max(int(count) for count in re.findall(rb"/Count (\d+)", paper))
    assert 5 <= pages <= 30
