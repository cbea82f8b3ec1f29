"""`sluicegate danube failover`, on a store in a file."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result
from tests.danube.failover.world import World, entries
from tests.output import HOSTILE
from tests.waiting import LONG_S, until

from sluicegate.cli import main
from sluicegate.host.http_get import http_get
from sluicegate.model import visible
from sluicegate.store import sqlite_file
from sluicegate.store.metadata.sqlite import SqliteMetadata
from sluicegate_danube.failover import keys

T = TypeVar("T")


class StoredWorld:
    """A `World` in a file; each use reopens it, as other programs do."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = f"sqlite:///{path}"

    def use(self, act: Callable[[World], Awaitable[T]]) -> T:
        async def used() -> T:
            store = SqliteMetadata(str(self._path))
            try:
                return await act(World(store))
            finally:
                await store.close()

        return asyncio.run(used())

    def owners(self) -> dict[str, list[int]]:
        return self.use(lambda world: world.owners())

    def owning(self) -> set[int]:
        """The brokers that own topics."""
        return {broker for owners in self.owners().values() for broker in owners}

    def leave(self, broker: int) -> None:
        """A broker's registration is gone."""
        self.use(lambda world: world.store.delete(keys.registration_key(broker)))


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredWorld:
    """Broker 1 with topics a, b and c, broker 2 with none; broker 3 is gone and owns topic d."""
    monkeypatch.setattr(sqlite_file, "_BUSY_S", LONG_S)  # a controller may stall while it has the lock
    made = StoredWorld(tmp_path / "metadata.db")

    async def fill(world: World) -> None:
        for broker in (1, 2):
            await world.start(broker, ttl_s=3600)
        for name in "abc":
            await world.provide(f"/default/{name}", 1)
        await world.provide("/default/d", 3)

    made.use(fill)
    return made


def call(stored: StoredWorld, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["danube", "failover", *arguments, "--store", stored.url])


def said(stored: StoredWorld, *arguments: str) -> Any:
    done = call(stored, *arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_status_lists_brokers_topics_and_problems(stored: StoredWorld) -> None:
    async def spoil(world: World) -> None:
        await world.provide("/default/e")
        await world.store.put("/cluster/register/x", b"null")
        await world.store.delete(keys.topic_key("/default/a", "policy"))

    stored.use(spoil)
    status = said(stored, "status")
    assert [(broker["id"], broker["state"], broker["topics"]) for broker in status["brokers"]] == [
        (1, "active", 3),
        (2, "active", 0),
        (3, "dead", 1),
    ]
    assert status["leader"] is None
    assert status["topics"]["unassigned"] == ["/default/e"]
    assert status["topics"]["without_policy"] == ["/default/a"]
    assert status["problems"][0]["key"] == "/cluster/register/x"
    assert call(stored, "status").output.splitlines() == [
        "leader: none",
        "controllers that stand by: 0",
        "broker 1 at http://10.0.0.1:6650: active, 3 topics",
        "broker 2 at http://10.0.0.2:6650: active, 0 topics",
        "broker 3: dead, 1 topics",
        "topics: 4 owned, 1 unassigned",
        "/default/e: waits for an owner",
        "/default/a: has no policy",
        "/cluster/register/x: expected /cluster/register/{broker}",
    ]


def test_names_in_the_store_do_not_control_the_terminal(stored: StoredWorld) -> None:
    name = HOSTILE.replace("\ud800", "").replace("/", "")
    stored.use(lambda world: world.provide(f"/default/{name}", 3))
    for command in (["status"], ["reassign", "--dry-run"], ["run", "--dry-run"]):
        for form in ([], ["--json"]):
            output = call(stored, *command, *form).output
            assert visible(output, keep="\n") == output
            assert "forged line" in output or command == ["status"]
            assert not any(line.startswith("forged") for line in output.splitlines())


def test_a_dry_run_prints_the_moves_and_makes_none(stored: StoredWorld) -> None:
    before = stored.owners()
    planned = {"topic": "/default/d", "source": 3, "target": 2}
    for command in ("run", "reassign"):
        assert said(stored, command, "--dry-run") == {"dry_run": True, "moves": [planned]}
        assert call(stored, command, "--dry-run").output == "/default/d: broker 3 -> broker 2\n"
    drained = said(stored, "reassign", "--from", "1", "--topic", "/default/a", "--dry-run")["moves"]
    assert drained == [{"topic": "/default/a", "source": 1, "target": 2}]
    assert stored.owners() == before


def test_reassign_moves_topics_of_dead_brokers_where_no_controller_runs(stored: StoredWorld) -> None:
    durable = stored.use(lambda world: world.durable())
    assert call(stored, "reassign").output == "/default/d: broker 3 -> broker 2\n"
    assert stored.owners()["/default/d"] == [2]
    assert entries(stored.use(lambda world: world.durable())) == entries(durable)
    assert call(stored, "reassign").output == "nothing to move\n"
    assert said(stored, "status")["leader"] is None


def test_reassign_empties_a_live_broker(stored: StoredWorld) -> None:
    assert len(said(stored, "reassign", "--from", "1")["moved"]) == 3
    assert stored.owning() == {2, 3}
    assert said(stored, "reassign", "--topic", "/default/a", "--to", "1")["moved"][0]["target"] == 1
    assert stored.owners()["/default/a"] == [1]


def test_reassign_leaves_assignments_to_a_running_leader(stored: StoredWorld) -> None:
    stored.use(lambda world: world.store.put(keys.LEADER, b"2"))
    done = call(stored, "reassign", "--topic", "/default/a", "--to", "2")
    assert done.output == "/default/a: unassigned, for the leader to assign\n"
    entry = stored.use(lambda world: world.store.get(keys.unassigned_key("/default/a")))
    assert entry is not None
    assert json.loads(entry.value) == {"reason": "rebalance", "from_broker": 1, "to_broker": 2}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("reassign", "--from", "9"), "broker 9 owns no topic"),
        (("reassign", "--topic", "/default/x"), "topic '/default/x' has no owner"),
        (("reassign", "--topic", "/default/a", "--from", "3"), "is not owned by broker 3"),
        (("reassign", "--from", "1", "--to", "3"), "broker 3 is not active"),
        (("reassign", "--from", "one"), "'one' is not a valid integer range"),
        (("run", "--grace", "soon"), "Invalid value for '--grace'"),
        (("run", "--metrics", "9000"), "expected HOST:PORT, got '9000'"),
        (("run", "--ttl", "1"), "Invalid value for '--ttl'"),
    ],
)
def test_wrong_arguments_are_reported(stored: StoredWorld, arguments: tuple[str, ...], text: str) -> None:
    before = stored.owners()
    done = call(stored, *arguments)
    assert done.exit_code != 0
    assert text in done.output
    assert stored.owners() == before


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("redis://127.0.0.1", "expected etcd://"),
        ("etcd://127.0.0.1:2379/prefix", "Danube's keys begin with no prefix"),
        ("etcd://", "etcd://"),
    ],
)
def test_unusable_stores_are_reported(url: str, text: str) -> None:
    done = CliRunner().invoke(main, ["danube", "failover", "status", "--store", url])
    assert done.exit_code != 0
    assert text in done.output


def test_run_does_not_start_where_another_load_manager_leads(stored: StoredWorld) -> None:
    stored.use(lambda world: world.store.put(keys.LEADER, b"1"))
    done = call(stored, "run")
    assert done.exit_code == 1
    assert "another load manager leads: /cluster/leader says 1" in done.output
    assert "with --take-over" in done.output


@contextmanager
def running(stored: StoredWorld, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`run` as a process, and its ready line."""
    command = [sys.executable, "-m", "sluicegate", "danube", "failover", "run", "--store", stored.url]
    with subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline()
        finally:
            process.kill()


def metric(page: str, name: str) -> float:
    lines = [line for line in page.splitlines() if line.startswith(f"sluicegate_danube_failover_{name} ")]
    assert len(lines) == 1, page
    return float(lines[0].split()[1])


@pytest.mark.seed("S3-006", "S3-012")
def test_run_moves_topics_serves_metrics_and_ends_on_sigterm(stored: StoredWorld) -> None:
    with running(stored, "--metrics", "127.0.0.1:0", "--grace", "10ms", "--json") as (process, ready):
        assert ready.startswith("sluicegate danube failover ready: controller ")
        until(lambda: stored.owners().get("/default/d") == [2])
        stored.leave(1)
        until(lambda: stored.owning() == {2})
        url = ready.split("metrics at ")[1].strip()

        def page() -> str:
            return asyncio.run(http_get(url, timeout_s=LONG_S)).decode()

        until(lambda: metric(page(), "failovers_total") == 2)
        assert metric(page(), "leader") == 1
        assert metric(page(), "owners_changed_total") == 4
        assert metric(page(), "store_age_seconds") >= 0
        assert metric(page(), "last_failover_timestamp_seconds") > 0
        assert said(stored, "status")["leader"]["kind"] == "controller"
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=LONG_S)
        assert process.returncode == 0, log
    lines = [json.loads(line) for line in log.splitlines()]
    assert sum("is dead" in line["message"] for line in lines) == 2
    assert said(stored, "status")["leader"] is None
