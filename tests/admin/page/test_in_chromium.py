"""The page in a real Chromium, over a real endpoint: views, changes, hostile names, keys, sizes, restart."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.admin.page.driven import Driven
from tests.admin.page.served import HOSTILE, Served
from tests.conftest import ARTEFACTS
from tests.decisions.test_journal import row
from tests.reports.render.page.browser import find_browser

from sluicegate.decisions import RefusalJournal
from sluicegate.model import Action, visible
from sluicegate.runtime.plugins import CHOICE

pytestmark = pytest.mark.slow

VIEWS = ("overview", "topics", "held", "decisions", "policies", "history", "factors")
SEEN = {
    "overview": "Clients are served.",
    "topics": "payments.cards",
    "held": "5 held.",
    "decisions": "abcd-2",
    "policies": "1k/s",
    "history": "Nothing was changed yet.",
    "factors": "pressure",
}
NARROW = 390


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    made = Driven(find_browser(), tmp_path_factory.mktemp("chromium"))
    yield made
    made.close()


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv(CHOICE, "kafka")
    made = Served(tmp_path)
    journal = RefusalJournal(tmp_path, "kafka", "main")
    journal.record([row("abcd-1"), row("abcd-2", Action.DELAY, client=HOSTILE[0])], 0, 0)
    yield made
    journal.close()
    made.stop()


@pytest.fixture
def page(chromium: Driven, served: Served) -> Iterator[Driven]:
    chromium.look_like(1280, "light")
    chromium.requests.clear()
    chromium.troubles.clear()
    chromium.open(served.url)
    yield chromium
    chromium.run("sessionStorage.clear()")
    chromium.command("Page.navigate", url="about:blank")


def open_view(page: Driven, name: str) -> None:
    page.click(name.capitalize(), "nav")
    page.wait_for(f"document.title.startsWith({json.dumps(name.capitalize())})")


def shows(page: Driven, text: str) -> None:
    page.wait_for(f"document.body.innerText.includes({json.dumps(text)})")


def use_token(page: Driven, token: str) -> None:
    page.run("document.getElementById('token-open').click()")
    page.type(token)
    page.press("Enter")


def keep(page: Driven, name: str) -> None:
    """Keep a screenshot where CI keeps what a run leaves behind, if it names a folder."""
    if ARTEFACTS in os.environ:
        page.photograph(Path(os.environ[ARTEFACTS]) / "admin-page" / f"{name}.png")


@pytest.mark.parametrize("width", [1280, NARROW])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_view_opens_and_fits(page: Driven, served: Served, scheme: str, width: int) -> None:
    page.look_like(width, scheme)
    for name in VIEWS:
        open_view(page, name)
        if name != "decisions":
            shows(page, SEEN[name])
        page.wait_for("getComputedStyle(document.body).display === 'block'")
        keep(page, f"{name}-{width}-{scheme}")
        assert page.run("document.documentElement.scrollWidth") <= width, name
    paper = page.run("getComputedStyle(document.documentElement).backgroundColor")
    assert paper == ("rgb(252, 252, 250)" if scheme == "light" else "rgb(20, 23, 27)")
    assert [each for each in page.requests if not each.startswith(served.url) and each[:5] != "data:"] == []
    assert page.troubles == []
