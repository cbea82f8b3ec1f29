"""The policies over the admin API."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.admin.lab import KEY, Lab, Supervised

from sluicegate.admin.access import WrongTokens
from sluicegate.admin.bodies import MOST_BYTES
from sluicegate.admin.running_note import ACTOR, own_token
from sluicegate.runtime.hindsight import Hindsight
from sluicegate.runtime.plugins import CHOICE
from sluicegate.store import StoreError
from sluicegate.store.sqlite import SqliteStore

YAML = {"content-type": "application/yaml"}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv(CHOICE, "kafka")
    made = Lab(Supervised(tmp_path))
    yield made
    made.close()


def change(value: object, **more: object) -> dict[str, Any]:
    edit = {"level": "topic", "name": "orders.eu", "field": "max_publish_rate", "value": value, **more}
    return {"edits": [edit], "reason": "the fair"}


async def test_a_change_is_in_force_in_the_history_and_can_be_undone(lab: Lab) -> None:
    before = (await lab.ask("GET", "/policies")).json()
    done = await lab.ask("PATCH", "/policies", json=change("500/s"))
    assert done.status_code == 200
    assert done.headers["etag"] == f'"{done.json()["version"]}"'
    now = (await lab.ask("GET", "/policies", params={"name": "orders.eu"})).json()
    assert [(row["text"], row["source"]) for row in now["settings"]] == [("500/s", "store")]
    [revision] = (await lab.ask("GET", "/policies/history")).json()["revisions"]
    assert (revision["actor"], revision["reason"]) == ("ci", "the fair")
    undone = await lab.ask("POST", f"/policies/history/{revision['number']}/undo", json={})
    assert undone.json()["version"] == before["version"]
    revisions = (await lab.ask("GET", "/policies/history", params={"limit": 1})).json()
    assert (revisions["revisions"][0]["reason"], revisions["next_before"]) == ("undo revision 1", 2)
    older = await lab.ask("GET", "/policies/history", params={"before": 2})
    assert [each["number"] for each in older.json()["revisions"]] == [1]


async def test_a_dry_run_changes_nothing(lab: Lab) -> None:
    plan = await lab.ask("PATCH", "/policies?dry_run=true", json=change("500/s"))
    assert [each["new_text"] for each in plan.json()["changes"]] == ["500/s"]
    assert (await lab.ask("GET", "/policies/history")).json() == {"revisions": []}


async def test_a_document_is_applied_exported_and_pruned(lab: Lab) -> None:
    document = "policies:\n  topics:\n  - name: clicks\n    max_publish_rate: 9/s\n"
    await lab.ask("PATCH", "/policies", json=change("500/s"))
    plan = await lab.ask("POST", "/policies/document?prune=true&dry_run=true", content=document, headers=YAML)
    assert [each["new"] for each in plan.json()["changes"]] == [9, None]
    await lab.ask("POST", "/policies/document?prune=true&reason=all", content=document, headers=YAML)
    exported = await lab.ask("GET", "/policies/document")
    assert (exported.text, exported.headers["content-type"]) == (document, "application/yaml")
    refused = await lab.ask("POST", "/policies/document", content="policies: {topics: 7}", headers=YAML)
    assert (refused.status_code, refused.json()["type"]) == (422, "/problems/invalid-document")
    assert refused.json()["findings"][0]["line"] == 1


async def test_an_old_version_gets_412_and_a_known_one_304(lab: Lab) -> None:
    etag = (await lab.ask("GET", "/policies")).headers["etag"]
    same = await lab.ask("GET", "/policies", headers={"if-none-match": etag})
    assert (same.status_code, same.content) == (304, b"")
    first = await lab.ask("PATCH", "/policies", json=change("500/s"), headers={"if-match": etag})
    second = await lab.ask("PATCH", "/policies", json=change("600/s"), headers={"if-match": etag})
    third = await lab.ask("PATCH", "/policies", json=change("600/s"), headers={"if-match": '"nonsense"'})
    assert [first.status_code, second.status_code, third.status_code] == [200, 412, 412]
    assert second.json()["type"] == "/problems/conflict"
    assert "repeat the change" in second.json()["remedy"]


async def test_settings_come_in_pages(lab: Lab) -> None:
    edits = [change(n, name=f"t{n}")["edits"][0] for n in range(1, 8)]
    await lab.ask("PATCH", "/policies", json={"edits": edits})
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = (await lab.ask("GET", "/policies", params={"limit": 3, "offset": offset})).json()
        assert page["total"] == 8
        seen += [row["name"] for row in page["settings"]]
        offset = page.get("next_offset")
    assert seen == ["orders", *(f"t{n}" for n in range(1, 8))]


@pytest.mark.parametrize(
    ("token", "client", "reads", "writes"),
    [
        ("token-ci", "10.0.0.7", 200, 200),
        ("token-viewer", "10.0.0.7", 200, 403),
        ("token-prometheus", "127.0.0.1", 401, 401),
        ("token-c", "127.0.0.1", 401, 401),
        (None, "127.0.0.1", 200, 403),
        (None, "10.0.0.7", 403, 403),
    ],
)
async def test_scopes(lab: Lab, token: str | None, client: str, reads: int, writes: int) -> None:
    read = await lab.ask("GET", "/policies", token, client)
    written = await lab.ask("PATCH", "/policies", token, client, json=change("500/s"))
    assert (read.status_code, written.status_code) == (reads, writes)
    for answer in (read, written):
        if answer.status_code != 200:
            assert answer.json()["remedy"]
    assert ("www-authenticate" in read.headers) == (reads == 401)


@pytest.mark.parametrize(("token", "status"), [("token-viewer", 200), (None, 200), ("token-prometheus", 401)])
async def test_who_may_read_may_plan(lab: Lab, token: str | None, status: int) -> None:
    await lab.ask("PATCH", "/policies", json=change("500/s"))
    document = {"content": "policies: {topics: [{name: a, max_publish_rate: 1}]}", "headers": YAML}
    plans: list[tuple[str, str, dict[str, Any]]] = [
        ("PATCH", "/policies", {"json": change("5/s")}),
        ("POST", "/policies/document", document),
        ("POST", "/policies/history/1/undo", {"json": {}}),
    ]
    for method, path, options in plans:
        plan = await lab.ask(method, f"{path}?dry_run=true", token, **options)
        assert plan.status_code == status
        assert status != 200 or len(plan.json()["changes"]) == 1
        done = await lab.ask(method, f"{path}?dry_run=false&dry_run=", token, **options)
        assert done.status_code in (400, 401), "what is no dry run for sure is none"
        done = await lab.ask(method, f"{path}?dry_run=true&dry_run=false", token, **options)
        assert done.status_code in (401, 403)
    assert len((await lab.ask("GET", "/policies/history")).json()["revisions"]) == 1


async def test_a_plan_says_why_nobody_knows_who_would_have_been_refused(lab: Lab) -> None:
    plan = (await lab.ask("PATCH", "/policies?dry_run=true", json=change("500/s"))).json()
    assert plan["last_hour"]["known"] is False
    assert plan["last_hour"]["reason"].startswith("there is no decision log yet in ")
    assert plan["last_hour"]["remedy"]
    done = (await lab.ask("PATCH", "/policies", json=change("500/s"))).json()
    assert "last_hour" not in done


async def test_the_last_hour_is_replayed_in_a_thread_of_its_own(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    look = Hindsight.look

    def noted(self: Hindsight, now_s: float) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return look(self, now_s)

    monkeypatch.setattr(Hindsight, "look", noted)
    await lab.ask("PATCH", "/policies?dry_run=true", json=change("500/s"))
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


async def test_a_change_checks_file_and_store_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    watch, checks = lab.supervised.watch, 0
    check = watch.check

    def counted(force: bool = False) -> bool:
        nonlocal checks
        checks += 1
        return check(force)

    monkeypatch.setattr(watch, "check", counted)
    await lab.ask("PATCH", "/policies", json=change("500/s"))
    assert checks == 1


async def test_the_gateways_own_user_may_write_and_is_named(lab: Lab) -> None:
    headers = {ACTOR: "ann (command line)"}
    done = await lab.ask("PATCH", "/policies", own_token(KEY), json=change("500/s"), headers=headers)
    assert done.status_code == 200
    [revision] = (await lab.ask("GET", "/policies/history")).json()["revisions"]
    assert revision["actor"] == "ann (command line)"


async def test_a_token_of_the_file_cannot_take_another_name(lab: Lab) -> None:
    await lab.ask("PATCH", "/policies", json=change("500/s"), headers={ACTOR: "ann"})
    [revision] = (await lab.ask("GET", "/policies/history")).json()["revisions"]
    assert revision["actor"] == "ci"


async def test_an_address_that_tries_tokens_is_made_to_wait(lab: Lab) -> None:
    answers = [await lab.ask("GET", "/policies", f"guess-{n}", "10.0.0.7") for n in range(11)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429]
    assert int(answers[-1].headers["retry-after"]) > 0
    assert (await lab.ask("GET", "/policies", "token-ci", "10.0.0.7")).status_code == 429
    assert (await lab.ask("GET", "/policies", "token-ci", "10.0.0.8")).status_code == 200


def test_a_minute_later_it_may_try_again_and_addresses_are_bounded() -> None:
    now = 0.0
    wrong = WrongTokens(lambda: now)
    for _ in range(10):
        wrong.count("10.0.0.7")
    assert wrong.wait_s("10.0.0.7") == 60
    now = 60.0
    assert wrong.wait_s("10.0.0.7") == 0
    for number in range(2_000):
        wrong.count(f"address {number}")
    assert len(wrong._counts) == 1_000


async def test_a_page_of_another_site_is_refused(lab: Lab) -> None:
    foreign = await lab.ask("GET", "/policies", headers={"origin": "http://evil.example"})
    own = await lab.ask("GET", "/policies", headers={"origin": "http://localhost"})
    assert (foreign.status_code, foreign.json()["type"]) == (403, "/problems/foreign-origin")
    assert own.status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "name"),
    [
        ("PATCH", "/policies", {"content": "{", "headers": {"content-type": "application/json"}}, 400, None),
        ("PATCH", "/policies", {"content": "{}"}, 415, "wrong-type"),
        ("PATCH", "/policies", {"json": {}}, 400, None),
        ("PATCH", "/policies", {"json": {"edits": [{}]}}, 400, None),
        ("PATCH", "/policies", {"json": {**change("5/s"), "more": 1}}, 400, None),
        ("PATCH", "/policies", {"json": change([5])}, 400, None),
        ("PATCH", "/policies", {"json": change("5x")}, 422, "refused"),
        ("PATCH", "/policies", {"json": change("5/s", name="../../etc\x1b[2J")}, 422, "refused"),
        ("PATCH", "/policies?dry_run=maybe", {"json": change("5/s")}, 400, None),
        (
            "PATCH",
            "/policies",
            {"content": b"[" * 100_000, "headers": {"content-type": "application/json"}},
            400,
            None,
        ),
        (
            "PATCH",
            "/policies",
            {"content": b" " * (MOST_BYTES + 1), "headers": {"content-type": "application/json"}},
            413,
            "too-large",
        ),
        ("POST", "/policies/document", {"content": b"\xff", "headers": YAML}, 400, None),
        ("GET", "/policies?limit=0", {}, 400, None),
        ("GET", "/policies?offset=-1", {}, 400, None),
        ("GET", "/policies/history?limit=9999999999999999999999", {}, 400, None),
        ("POST", "/policies/history/7/undo", {"json": {}}, 404, "unknown-revision"),
        ("POST", "/policies/history/x/undo", {"json": {}}, 400, None),
        ("DELETE", "/policies", {}, 405, "method-not-allowed"),
        ("GET", "/policies/..%2f..%2fetc", {}, 404, "not-found"),
    ],
)
async def test_bad_requests_are_problems_and_change_nothing(
    lab: Lab, method: str, path: str, options: dict[str, Any], status: int, name: str | None
) -> None:
    answer = await lab.ask(method, path, **options)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    found = answer.json()
    assert found["type"] == f"/problems/{name or 'invalid-request'}"
    assert found["detail"]
    assert found["remedy"]
    assert "\x1b" not in answer.text
    assert (await lab.ask("GET", "/policies/history")).json() == {"revisions": []}


async def test_a_store_that_cannot_be_written_is_told(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> int:
        raise StoreError("policy store cannot be used (disk is full)", "free some space")

    monkeypatch.setattr(SqliteStore, "change", full)
    answer = await lab.ask("PATCH", "/policies", json=change("500/s"))
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/store-unavailable")
    assert answer.json()["remedy"] == "free some space"
