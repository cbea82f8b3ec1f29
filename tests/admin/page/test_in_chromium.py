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
    "decisions": "Explain",
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
        shows(page, SEEN[name])
        keep(page, f"{name}-{width}-{scheme}")
        assert page.run("document.documentElement.scrollWidth") <= width, name
    paper = page.run("getComputedStyle(document.documentElement).backgroundColor")
    assert paper == ("rgb(252, 252, 250)" if scheme == "light" else "rgb(20, 23, 27)")
    assert [each for each in page.requests if not each.startswith(served.url) and each[:5] != "data:"] == []
    assert page.troubles == []


def test_a_limit_is_changed_with_its_plan_first_and_undone(page: Driven) -> None:
    open_view(page, "policies")
    use_token(page, "token-ci")
    page.wait_for("sessionStorage.length === 1")
    page.fill("#change-name", "orders.eu")
    page.fill("#change-field", "max_publish_rate")
    page.fill("#change-value", "500/s")
    page.fill("#change-reason", "the fair")
    page.click("Show what it would do")
    shows(page, "It would change:")
    shows(page, "not set → 500/s")
    keep(page, "plan")
    page.click("Apply")
    shows(page, "Done: revision")
    open_view(page, "history")
    shows(page, "the fair")
    keep(page, "history")
    page.click("Undo…")
    shows(page, "500/s → not set")
    page.click(page.run("document.querySelector('main button.main').textContent"))
    shows(page, "Done: revision")
    shows(page, "undo revision")
    assert all("token" not in each for each in page.requests)
    assert page.troubles == []


def test_a_row_fills_the_form_and_a_changed_form_drops_its_plan(page: Driven) -> None:
    page.run("sessionStorage.setItem('sluicegate-token', 'token-ci')")
    open_view(page, "policies")
    shows(page, SEEN["policies"])
    page.click("Change", "main tbody")
    filled = "['level', 'name', 'field', 'value'].map((id) => document.getElementById(`change-${id}`).value)"
    assert page.run(filled) == ["namespace", "orders", "max_publish_rate", "1k/s"]
    page.fill("#change-value", "2k/s")
    page.click("Show what it would do")
    shows(page, "1k/s of the file → 2k/s")
    page.fill("#change-value", "3k/s")
    assert not page.run("document.body.innerText.includes('It would change')")
    page.run(
        "(() => { const does = document.getElementById('change-does'); does.value = 'unset';"
        "does.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    assert page.run("document.getElementById('change-value').disabled")
    page.click("Show what it would do")
    shows(page, "It would change nothing.")


def test_a_plan_that_is_outdated_is_not_applied_but_looked_at_again(page: Driven, served: Served) -> None:
    page.run("sessionStorage.setItem('sluicegate-token', 'token-ci')")
    open_view(page, "policies")
    page.fill("#change-name", "orders.eu")
    page.fill("#change-field", "max_publish_rate")
    page.fill("#change-value", "500/s")
    page.click("Show what it would do")
    shows(page, "not set → 500/s")
    edit = {"level": "topic", "name": "orders.eu", "field": "max_publish_rate", "value": "400/s"}
    other = {
        "method": "PATCH",
        "headers": {"Authorization": "Bearer token-ci", "Content-Type": "application/json"},
        "body": json.dumps({"edits": [edit]}),
    }
    assert page.run(f"fetch('api/v1/policies', {json.dumps(other)}).then((answer) => answer.status)") == 200
    page.click("Apply")
    shows(page, "Nothing was changed: somebody changed the policies since you looked.")
    page.click("Look again")
    shows(page, "400/s → 500/s")
    page.click("Apply")
    shows(page, "Done: revision")


def test_who_may_not_is_told_what_to_do(page: Driven) -> None:
    open_view(page, "policies")
    page.fill("#change-name", "orders.eu")
    page.fill("#change-field", "max_publish_rate")
    page.fill("#change-value", "1/s")
    page.click("Show what it would do")
    shows(page, "not set → 1/s")
    shows(page, "Who would have been refused is not known")
    page.click("Apply")
    shows(page, "paste a token whose scope is write")
    assert page.run("document.activeElement.id") == "token-input"
    page.type("wrong")
    page.press("Enter")
    shows(page, "The token was forgotten.")
    assert page.run("sessionStorage.length") == 0
    use_token(page, "token-viewer")
    page.click("Show what it would do")
    shows(page, "not set → 1/s")
    page.click("Apply")
    shows(page, "This caller may only read.")
    page.run("document.getElementById('token-forget').click()")
    assert page.run("sessionStorage.length") == 0


def test_too_many_wrong_tokens_are_told_and_no_more_are_sent(page: Driven) -> None:
    wrong = "fetch('api/v1/health', {headers: {Authorization: 'Bearer x'}}).then((answer) => answer.status)"
    assert [page.run(wrong) for _ in range(10)] == [401] * 10
    use_token(page, "token-ci")
    shows(page, "Too many wrong tokens")
    page.wait_for(
        "document.getElementById('banner').textContent.includes('asks again when the time is over')"
    )


def test_names_of_clients_are_text(page: Driven) -> None:
    for name in ("overview", "topics", "held", "decisions", "factors"):
        open_view(page, name)
        shows(page, SEEN[name])
        assert (
            page.run("document.querySelectorAll('main img, main script, main b > *, main i > *').length") == 0
        )
        assert not page.run("document.title").startswith("gone")
    open_view(page, "topics")
    for name in HOSTILE:
        shows(page, visible(name))
    page.click(visible(HOSTILE[0]))
    shows(page, "Policies in force")
    assert page.run("document.getElementById('effective-topic').value") == HOSTILE[0]
    assert page.troubles == []


def test_decisions_come_live_can_be_paused_and_are_explained(page: Driven, tmp_path: Path) -> None:
    open_view(page, "decisions")
    shows(page, "Live.")
    shows(page, HOSTILE[0])
    page.click("Pause")
    journal = RefusalJournal(tmp_path, "kafka", "main")
    journal.record([row("abcd-3", client="late@h:1")], 0, 0)
    journal.close()
    shows(page, "Paused; 1 more since.")
    assert "late@h:1" not in page.run("document.body.innerText")
    page.click("Go on")
    shows(page, "late@h:1")
    page.click("Explain", "main tbody")
    shows(page, "abcd-3")
    assert page.run("document.activeElement.getAttribute('aria-label')") == "Explanation"
    keep(page, "explained")
    page.run(
        "(() => { const s = [...document.querySelectorAll('main select')].at(-1); s.value = 'delay';"
        "s.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    page.wait_for("document.querySelectorAll('main tbody tr').length === 1")
    shows(page, HOSTILE[0])


@pytest.mark.parametrize("name", VIEWS)
def test_the_keyboard_reaches_everything(page: Driven, name: str) -> None:
    open_view(page, name)
    shows(page, SEEN[name])
    page.run("(() => { window.reached = new Set(); document.activeElement.blur(); })()")
    able = "[...document.querySelectorAll('a[href], button:enabled, input:enabled, select, summary')]"
    able += ".filter((each) => each.checkVisibility())"
    for _ in range(page.run(f"{able}.length") + 12):
        page.press("Tab")
        page.run("reached.add(document.activeElement)")
    missed = page.run(f"{able}.filter((each) => !reached.has(each)).map((each) => each.outerHTML)")
    assert missed == []


def test_keys_alone_change_the_view_and_its_order(page: Driven) -> None:
    page.press("Tab")
    assert page.run("document.activeElement.id") == "skip"
    page.press("Tab")
    page.press("Tab")
    page.press("Tab")
    page.press("Enter")
    page.wait_for("document.title.startsWith('Topics')")
    shows(page, "payments.cards")
    page.run("document.querySelector('th button').focus()")
    page.press("Enter")
    page.wait_for("document.querySelector('th').getAttribute('aria-sort') === 'ascending'")
    assert page.run("document.activeElement.textContent") == "topic"


def test_it_goes_on_when_the_gateway_comes_back(page: Driven, served: Served, tmp_path: Path) -> None:
    open_view(page, "topics")
    shows(page, "payments.cards")
    _, port = served.address
    served.stop()
    shows(page, "The gateway does not answer.")
    again = Served(tmp_path, port)
    try:
        shows(page, "The gateway answers again")
        shows(page, "Ready ·")
    finally:
        again.stop()


def test_a_hidden_page_asks_nothing(page: Driven) -> None:
    shows(page, "Ready ·")
    page.run(
        "(() => { Object.defineProperty(document, 'hidden', {get: () => window.away, configurable: true});"
        "window.away = true; document.dispatchEvent(new Event('visibilitychange')); })()"
    )
    page.wait_for("new Promise((done) => setTimeout(() => done(true), 200))")
    page.requests.clear()
    page.wait_for("new Promise((done) => setTimeout(() => done(true), 2500))")
    assert page.requests == []
    page.run("(() => { window.away = false; document.dispatchEvent(new Event('visibilitychange')); })()")
    page.wait_for("new Promise((done) => setTimeout(() => done(true), 200))")
    page.wait_for("document.getElementById('state').textContent.includes('Ready')")
    assert page.requests != []


def test_print_leaves_out_what_is_for_the_screen(page: Driven) -> None:
    open_view(page, "policies")
    shows(page, SEEN["policies"])
    page.look_like(794, "dark", "print")
    controls = "[...document.querySelectorAll('nav, button:not(th button), input, select, .screen')]"
    assert page.run(f"{controls}.filter((each) => each.checkVisibility()).length") == 0
    assert page.run("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    keep(page, "printed")
