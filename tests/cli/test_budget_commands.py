"""`sluicegate budgets status`, over a real Redis."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.harness.redis import RedisServer, why_no_redis
from tests.cli.conftest import BROKERS, Run
from tests.real.needs import need

from sluicegate.budgets import Limit, Member, Request, Standing
from sluicegate.cli.budget_commands import as_json, as_text
from sluicegate.config.models import Budgets
from sluicegate.runtime.plugins import load_plugins

USED, UNUSED = "main|orders|publish", "main|old|publish"


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    need(why_no_redis())
    with RedisServer(tmp_path / "redis") as server:
        yield server


def _info(policies: str, messages: float, **more: object) -> str:
    return json.dumps({"policies": policies, "limits": {USED: [messages, 0]}, **more})


async def _share(url: str) -> None:
    """Be three members, two of which use a limit."""
    members = [
        Member("one", "main/0", "1", _info("v1", 150, led=["main|storage_quota"])),
        Member("three", "main/0", "3", "not JSON, of a later version"),
        Member("two", "main/0", "2", _info("v1", 40, name_is_taken=True)),
    ]
    open_budgets = load_plugins(()).open_budgets
    for member in members:
        settings = Budgets(url=url, lease=10_000, timeout=1_000, place_lease=600_000)
        store = open_budgets(settings, member.instance)
        await store.join(member)
        for name, want in ((f"{USED}|m", 10), (f"{UNUSED}|b", 0)):
            if member.gateway != "three":
                await store.reserve([Request(Limit(name, 200, 400), want=want, seconds=0.1)])
        await store.close()


def test_status_shows_members_and_limits(run_in: Run, redis: RedisServer) -> None:
    asyncio.run(_share(redis.url))
    with_login = redis.url.replace("//", "//default:hunter2@")
    file = f"{BROKERS}budgets: {{url: '{with_login}', lease: 10s, place_lease: 600s}}\n"
    redis.ask("CONFIG", "SET", "requirepass", "hunter2")

    shown = run_in(file, "budgets", "status")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.split("\n") == [
        f"store ***@127.0.0.1:{redis.port}, fleet default",
        "",
        "gateway  worker  policies",
        "one      main/0  v1",
        "three    main/0  -         other policies than most",
        "two      main/0  v1        another gateway has this name, too: set `budgets.gateway`",
        "",
        "task                run by",
        "main|storage_quota  one main/0",
        "",
        "limit                rate   burst  holders  demand  granted  shares",
        "main|orders|publish  200/s  400    2        200/s   190/s    one main/0 150, two main/0 40",
        "not in use now: 1 more (--all)",
        "",
    ]
    assert UNUSED in run_in(None, "budgets", "status", "--all").stdout

    report = json.loads(run_in(None, "budgets", "status", "--json").stdout)
    assert (report["fleet"], "hunter2" in str(report)) == ("default", False)
    assert [each["has_other_policies"] for each in report["members"]] == [False, True, False]
    assert [each["name_is_taken"] for each in report["members"]] == [False, False, True]
    assert report["tasks"] == [{"name": "main|storage_quota", "gateway": "one", "worker": "main/0"}]
    [unused, used] = report["limits"]
    assert (unused["name"], unused["granted"], unused["shares"]) == (f"{UNUSED}|b", None, [])
    assert used["shares"] == [
        {"gateway": "one", "worker": "main/0", "granted": 150},
        {"gateway": "two", "worker": "main/0", "granted": 40},
    ]


def test_a_file_without_budgets_has_no_status(run_in: Run) -> None:
    shown = run_in(BROKERS, "budgets", "status")
    assert shown.exit_code == 1
    assert "gateway.yaml has no `budgets`: its gateway shares limits with no other one" in shown.stderr


def test_a_store_that_refuses_is_told_without_its_password(run_in: Run, redis: RedisServer) -> None:
    url = redis.url.replace("//", "//:wrong@")
    redis.ask("CONFIG", "SET", "requirepass", "hunter2")
    shown = run_in(f"{BROKERS}budgets: '{url}'\n", "budgets", "status")
    assert shown.exit_code == 1
    assert f"budget store ***@127.0.0.1:{redis.port}: the server asks for a login, or refuses" in shown.stderr
    assert "write user and password into the URL of `budgets`" in shown.stderr
    assert "wrong@" not in shown.stderr


def test_of_many_limits_and_workers_those_with_most_demand_are_shown() -> None:
    settings = Budgets(url="redis://h")
    names = [f"main|topic-{number}|max_publish_rate" for number in range(70)]
    infos = [json.dumps({"policies": "v1", "limits": {names[9]: [10 * worker, 0]}}) for worker in range(12)]
    members = [Member("one", f"main/{worker}", "x", info) for worker, info in enumerate(infos)]
    standings = [
        Standing(Limit(f"{name}|m", 900, 900), 0, 0, holders=int(number < 60), demand=number)
        for number, name in enumerate(names)
    ]
    report = as_json(settings, members, standings)
    lines = as_text(report, shows_all=False)
    first = lines.index(next(line for line in lines if line.startswith("limit ")))
    assert [line.split("|")[1] for line in lines[first + 1 : -2]] == [
        f"topic-{number}" for number in range(59, 9, -1)
    ]
    assert lines[-2:] == ["in use with less demand: 10 more (--all)", "not in use now: 10 more (--all)"]
    (shared,) = [line for line in as_text(report, shows_all=True) if "topic-9|" in line]
    assert shared.endswith(
        "660/s    one main/11 110, one main/10 100, one main/9 90, one main/8 80, 8 more 280"
    )
    assert len(report["limits"]) == 70
    assert len(report["limits"][9]["shares"]) == 12
