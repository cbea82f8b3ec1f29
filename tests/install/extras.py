"""What each extra alone can do, in a fresh environment; run by `tox run -e extras`, not with the other tests.

The name of this file keeps it out of them: it needs a package index, and minutes.
"""

import os
import shutil
from pathlib import Path

import pytest
from tests.install.conftest import Fresh

pytestmark = pytest.mark.timeout(1200)

_ROOT = Path(__file__).resolve().parents[2]
_SYSTEMS = {"kafka", "pulsar", "danube"}
_SERVED = {"kafka": {"kafka"}, "pulsar": {"pulsar"}, "danube": {"danube"}, "grpc": {"danube"}}
"""Kinds of broker that a gate serves with each extra; all that one before Danube needs is in `grpc` too."""
_REFUSED = {
    "kafka": "MessageSizeTooLargeError",
    "pulsar": "ChecksumError",
    "danube": "AioRpcError",
    "grpc": "AioRpcError",
}
"""The stock client's own error for a message that is too large."""
_FILE = """\
brokers:
  - name: main
    system: {system}
    bootstrap: ["127.0.0.1:1"]
    listen: {{port: 19092}}
policies: {{broker: {{max_publish_rate: 500/s}}}}
"""


def served(fresh: Fresh) -> set[str]:
    """Kinds of broker that can be served in an environment."""
    return _SERVED.get(fresh.extra, set())


def test_the_command_and_the_module_are_the_same(fresh: Fresh) -> None:
    told = fresh.sluicegate("--version")
    assert (told.returncode, told.stdout.split(",")[0]) == (0, "sluicegate")
    assert fresh.run("-c", "from sluicegate.cli import main; main(['--version'])").stdout == told.stdout
    assert fresh.sluicegate("--help").stdout.startswith("Usage: sluicegate [OPTIONS] COMMAND")


def test_every_command_has_its_help(fresh: Fresh) -> None:
    done = fresh.program("every_help")
    assert done.returncode == 0, done.stdout
    commands = done.stdout.splitlines()
    assert {"run", "check", "plugins list", "report compare", "compare run", "compare fetch"} <= set(commands)
    assert ("topics set-delayed-delivery" in commands) == (fresh.extra == "pulsar")


def test_a_file_is_checked_with_the_remedy_for_what_cannot_be_served(fresh: Fresh) -> None:
    for system in _SYSTEMS:
        file = fresh.directory / f"{system}.yaml"
        file.write_text(_FILE.format(system=system))
        done = fresh.sluicegate("check", file.name)
        if system in served(fresh):
            assert done.stdout == f"{system}.yaml: ok, broker main ({system}); 1 policy setting in 1 place\n"
        else:
            assert done.returncode == 0, "a file is checked anywhere; `run` refuses it"
            assert f"warning[config]: cannot serve system {system!r} here: " in done.stdout
            assert f"--> {system}.yaml:3:13  (brokers.0.system)" in done.stdout
            assert f"^ pip install 'sluicegate[{system}]'" in done.stdout


def test_the_example_is_checked_where_its_broker_can_be_served(fresh: Fresh) -> None:
    done = fresh.sluicegate("check", _ROOT / "examples" / "gateway.yaml")
    assert done.returncode == 0, done.stdout
    assert ("cannot serve system 'kafka' here" in done.stdout) == ("kafka" not in served(fresh))


def test_a_store_in_etcd_is_used_or_refused_with_the_remedy(fresh: Fresh) -> None:
    """Whatever brings gRPC brings all that `sluicegate[etcd]` does; Spark's client brings it too."""
    opened = "from sluicegate.store.plugin import sluicegate_metadata_store as s; s('etcd://127.0.0.1:1/x')"
    done = fresh.run("-c", opened)
    has_grpc = fresh.extra in ("danube", "grpc", "reports")
    assert ("cannot be reached" if has_grpc else "pip install 'sluicegate[etcd]'") in done.stdout


def test_a_budget_store_is_used_or_refused_with_the_remedy(fresh: Fresh) -> None:
    if fresh.extra == "budgets":
        if (
            not (has_redis := shutil.which("redis-server"))
            and os.environ.get("SLUICEGATE_REQUIRE_BROKER") != "1"
        ):
            pytest.skip("redis-server is not installed (Debian: redis-server)")
        assert has_redis
        done = fresh.program("on_budgets")
        assert done.returncode == 0, done.stdout
        assert "shared orders, holders 1" in done.stdout
    else:
        (fresh.directory / "budgets.yaml").write_text(
            f"{_FILE.format(system='kafka')}budgets: redis://127.0.0.1:1\n"
        )
        commands: list[tuple[str, ...]] = [("check", "budgets.yaml")]
        if "kafka" in served(fresh):
            commands.append(("budgets", "status", "-c", "budgets.yaml"))
        for command in commands:
            done = fresh.sluicegate(*command)
            assert done.returncode == 1
            assert "pip install 'sluicegate[budgets]'" in done.stdout


def test_what_is_left_out_is_listed(fresh: Fresh) -> None:
    done = fresh.sluicegate("plugins", "list")
    assert done.returncode == 0
    left_out = {line.split(":")[1].strip() for line in done.stdout.splitlines() if "left out" in line}
    assert left_out == _SYSTEMS - served(fresh)


def test_one_message_passes_and_one_is_refused(fresh: Fresh) -> None:
    """Where no broker can be served, `run` says so before it starts."""
    if fresh.extra in _REFUSED:
        done = fresh.program(f"on_{fresh.extra}")
        assert done.returncode == 0, done.stdout
        assert f"passed one, refused one: {_REFUSED[fresh.extra]}" in done.stdout
    else:
        (fresh.directory / "kafka.yaml").write_text(_FILE.format(system="kafka"))
        done = fresh.sluicegate("run", "-c", "kafka.yaml")
        assert done.returncode == 1
        assert "pip install 'sluicegate[kafka]'" in done.stdout


def test_jars_are_fetched_by_the_poms_of_the_wheel(fresh: Fresh) -> None:
    """Without Maven, from outside of a source tree."""
    place = (
        "import sluicegate_reports.runner.brokers.jars as j; print(*(j.pom(s) for s in j.SHIPPED), sep='\\n')"
    )
    installed = [Path(line) for line in fresh.run("-c", place).stdout.splitlines()]
    folders = ("kafka", "pulsar", "peers/strimzi-quotas", "spark-s3")
    sources = [_ROOT / "deploy" / name / "pom.xml" for name in folders]
    assert [pom.read_bytes() for pom in installed] == [pom.read_bytes() for pom in sources]
    done = fresh.sluicegate("compare", "fetch", "kafka", PATH="", XDG_CACHE_HOME=str(fresh.directory))
    assert (done.returncode, done.stdout) == (1, "error: java is not installed; Java 17 or later is needed\n")


def test_a_report_says_what_it_lacks(fresh: Fresh) -> None:
    """With the extra it is Java that is asked for, or a run; without it the extra."""
    (fresh.directory / "nothing").mkdir(exist_ok=True)
    done = fresh.sluicegate("report", "compare", "nothing")
    assert done.returncode == 2
    assert ("pip install 'sluicegate[reports]'" in done.stdout) == (fresh.extra != "reports")
