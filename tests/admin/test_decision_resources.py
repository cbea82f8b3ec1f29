"""Refusals over the admin API, from a real journal."""

import asyncio
import json
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
from tests.admin.lab import Lab, Supervised
from tests.decisions.test_journal import row

from sluicegate.decisions import RefusalJournal
from sluicegate.model import Action
from sluicegate.runtime.plugins import CHOICE


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv(CHOICE, "kafka")
    made = Lab(Supervised(tmp_path))
    yield made
    made.close()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[RefusalJournal]:
    made = RefusalJournal(tmp_path, "kafka", "main")
    yield made
    made.close()


async def test_without_a_journal_nothing_was_refused(lab: Lab) -> None:
    assert (await lab.ask("GET", "/decisions", None)).json() == {"decisions": []}
    missing = await lab.ask("GET", "/decisions/abcd-1", None)
    assert (missing.status_code, missing.json()["type"]) == (404, "/problems/unknown-decision")


async def test_the_newest_come_first_in_pages_and_one_by_its_id(lab: Lab, journal: RefusalJournal) -> None:
    journal.record([row("abcd-1"), row("abcd-2", Action.DELAY), row("abcd-3", client="\x1b[2J@h:1")], 0, 0)
    first = await lab.ask("GET", "/decisions?limit=2", None)
    assert [each["id"] for each in first.json()["decisions"]] == ["abcd-3", "abcd-2"]
    assert "\x1b" not in first.text
    rest = (await lab.ask("GET", f"/decisions?before={first.json()['next_before']}", None)).json()
    assert [each["id"] for each in rest["decisions"]] == ["abcd-1"]
    one = (await lab.ask("GET", "/decisions/abcd-1", None)).json()
    expected = {"broker": "main", "action": "reject", "topic": "orders.eu", "policies": "000000000007"}
    assert {key: one[key] for key in expected} == expected
    held = (await lab.ask("GET", "/decisions?action=delay", None)).json()["decisions"]
    assert [each["id"] for each in held] == ["abcd-2"]


async def test_new_ones_are_streamed_to_those_who_follow(lab: Lab, journal: RefusalJournal) -> None:
    """Asked as ASGI, since httpx's transport waits for the end of an answer."""
    journal.record([row("abcd-1")], 0, 0)
    sent: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/v1/decisions/live",
        "query_string": b"action=reject",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 5),
        "root_path": "",
    }
    gone = asyncio.Event()

    async def receive() -> MutableMapping[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    asked = asyncio.get_running_loop().create_task(lab.app(scope, receive, sent.put))
    start = await sent.get()
    assert (start["status"], dict(start["headers"])[b"content-type"]) == (
        200,
        b"text/event-stream; charset=utf-8",
    )
    assert (await sent.get())["body"].startswith(b":")
    journal.record([row("abcd-2", Action.DELAY), row("abcd-3")], 0, 0)
    number, data = (await sent.get())["body"].decode().strip().splitlines()
    assert number == "id: 3"
    assert json.loads(data.removeprefix("data: "))["id"] == "abcd-3"
    gone.set()
    await asked
