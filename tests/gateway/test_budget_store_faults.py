"""A store of shared limits that is wrong, refuses or loses all: gateways name the remedy, and serve on."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import pytest
from benchmarks.harness.redis import RedisServer
from tests.gateway.budget_gateways import RATE, Fleet, Publisher, command, metric, status, wait_for_log
from tests.gateway.certificates import Authority
from tests.gateway.lab import module_path
from tests.waiting import until


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Starts servers and gateways."""
    with Fleet(tmp_path) as running:
        yield running


@dataclass(frozen=True, slots=True)
class Fault:
    """A server that cannot be used as it is."""

    remedy: str
    """Part of what gateways say."""
    mend: tuple[str, ...]
    """A command that makes it usable."""
    options: tuple[str, ...] = ()
    begin: tuple[str, ...] = ()
    """A command at its start."""
    login: str = ""


FAULTS = {
    "no password": Fault(
        "write user and password into the URL of `budgets`",
        ("-a", "hunter2", "CONFIG", "SET", "requirepass", ""),
        options=("--requirepass", "hunter2"),
    ),
    "wrong password": Fault(
        "write user and password into the URL of `budgets`",
        ("ACL", "SETUSER", "joe", ">hunter2"),
        begin=("ACL", "SETUSER", "joe", "on", ">right", "+@all", "~*"),
        login="joe:hunter2@",
    ),
    "read-only replica": Fault(
        "name the primary", ("REPLICAOF", "NO", "ONE"), options=("--replicaof", "127.0.0.1", "PRIMARY")
    ),
    "full memory": Fault(
        "raise its maxmemory", ("CONFIG", "SET", "maxmemory", "0"), options=("--maxmemory", "1")
    ),
    "another version": Fault(
        "give this fleet another `budgets.name`",
        ("DEL", "sluicegate:default"),
        begin=("SET", "sluicegate:default", "2 1000"),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_gateway_serves_names_the_remedy_and_comes_back(fleet: Fleet, name: str) -> None:
    fault = FAULTS[name]
    primary = str(fleet.redis().port) if "PRIMARY" in fault.options else ""
    server = fleet.redis(*(primary if each == "PRIMARY" else each for each in fault.options))
    if fault.begin:
        server.ask(*fault.begin)
    gateway = fleet.gateway(server.url.replace("//", f"//{fault.login}"), workers=2)
    publisher = fleet.publisher(gateway)
    assert publisher.publish("free") == "passed"
    publisher.send("limited")

    until(lambda: gateway.errors.read_text().count(fault.remedy) == 2, "each worker says it")
    assert metric(gateway, "up") == 0
    assert gateway.get("/readyz")[0] == 200
    told = command(gateway, "budgets", "status")
    assert told.exit_code == 1
    assert fault.remedy in told.stderr
    until(lambda: fault.remedy in command(gateway, "explain", "limited").stdout)
    explained = command(gateway, "explain", "limited")
    server.ask(*fault.mend)
    assert publisher.answers() == ["passed"]
    assert status(gateway)["members"]
    log = gateway.errors.read_text()
    assert log.count(fault.remedy) == 2, "once for each worker"
    assert "hunter2" not in log + told.stderr + explained.stdout


def test_tls_is_told_with_its_remedy(fleet: Fleet, tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path / "ours").issue("redis", "127.0.0.1")
    files = ("--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "no")
    server = fleet.redis("--port", "0", "--tls-port", "PORT", *files)
    plain = fleet.gateway(server.url)
    unknown = fleet.gateway(server.url.replace("redis:", "rediss:"))
    for gateway, remedy in ((plain, "write rediss://"), (unknown, "by ?ssl_ca_certs=FILE")):
        assert fleet.publisher(gateway).publish("free") == "passed"
        wait_for_log(gateway, remedy)
        assert remedy in command(gateway, "budgets", "status").stderr


def test_without_its_package_a_gateway_runs_and_says_what_to_install(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = "tests.gateway.no_redis_package"
    gateway = fleet.gateway("redis://127.0.0.1:1", plugin=plugin, on_budget_lost="open")
    remedy = "pip install 'sluicegate[budgets]'"
    wait_for_log(gateway, remedy)
    assert fleet.publisher(gateway).publish("limited") == "passed"

    monkeypatch.setitem(sys.modules, "sluicegate.budgets.redis.redis_store", None)
    assert remedy in command(gateway, "budgets", "status").stderr
    checked = command(gateway, "check", option="")
    assert (checked.exit_code, remedy in checked.output) == (1, True)


def _flush(server: RedisServer) -> None:
    server.ask("FLUSHALL")
    server.ask("SCRIPT", "FLUSH")


def _evict(server: RedisServer) -> None:
    server.ask("CONFIG", "SET", "maxmemory", "1")
    until(lambda: server.ask("DBSIZE").strip() == b"0")
    server.ask("CONFIG", "SET", "maxmemory", "0")


@pytest.mark.parametrize("lose", [_flush, _evict])
def test_what_a_store_loses_in_the_middle_lets_no_more_pass(
    fleet: Fleet, lose: Callable[[RedisServer], None]
) -> None:
    """A client's time contains the gateway's: no speed matters."""
    server = fleet.redis("--maxmemory-policy", "allkeys-lru")
    publisher = fleet.publisher(fleet.gateway(server.url, workers=2))
    began = monotonic()
    publisher.send("limited", 3 * RATE)
    assert publisher.answers(RATE + RATE // 2) == ["passed"] * (RATE + RATE // 2)
    lose(server)
    assert publisher.answers(RATE + RATE // 2) == ["passed"] * (RATE + RATE // 2)
    assert RATE * (monotonic() - began) + RATE >= 3 * RATE


def attach(publisher: Publisher) -> None:
    """Take the only place; a store that is slow to answer is asked again."""
    until(lambda: publisher.publish("narrow") == "passed")


def test_fleets_of_other_names_in_one_store_share_nothing(fleet: Fleet) -> None:
    server = fleet.redis()
    gateways = [fleet.gateway(server.url, name=name) for name in ("one", "two")]
    for gateway in gateways:
        attach(fleet.publisher(gateway))
        [member] = status(gateway)["members"]
        assert not member["name_is_taken"]
        assert "another gateway" not in gateway.errors.read_text()


def test_gateways_of_one_name_work_and_say_so_once(fleet: Fleet) -> None:
    server = fleet.redis()
    gateways = [fleet.gateway(server.url) for _ in range(2)]
    remedy = "give each its own name by `budgets.gateway`"
    for gateway in gateways:
        assert fleet.publisher(gateway).publish("limited") == "passed"
        wait_for_log(gateway, remedy)
    until(lambda: status(gateways[0])["members"][0]["name_is_taken"])
    said = "another gateway has this name, too: set `budgets.gateway`"
    until(lambda: said in command(gateways[0], "budgets", "status").stdout)
    assert [gateway.errors.read_text().count(remedy) for gateway in gateways] == [1, 1]


_AN_HOUR_AHEAD = """
import time
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + 3600
time.time_ns = lambda: _time_ns() + 3600 * 10**9
"""


def test_clocks_an_hour_apart_change_nothing(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "ahead").mkdir()
    (tmp_path / "ahead/sitecustomize.py").write_text(_AN_HOUR_AHEAD)
    environ = {"PYTHONPATH": f"{tmp_path / 'ahead'}:{module_path()}"}
    server = fleet.redis()
    one = fleet.gateway(server.url)
    two = fleet.gateway(server.url, gateway="two", environ=environ)
    until(lambda: [metric(each, "members") for each in (one, two)] == [2, 2])
    publishers = [fleet.publisher(each) for each in (one, two)]
    began = monotonic()
    for each in publishers:
        each.send("limited", RATE)
    for each in publishers:
        assert each.answers(RATE) == ["passed"] * RATE
    assert RATE * (monotonic() - began) + RATE >= 2 * RATE

    first, second = publishers
    attach(first)
    until(lambda: "Producer limit reached" in second.publish("narrow"))
    first.leave()
    attach(second)
