"""A broker room without its extra is left out; where the file names it, the error says what to install."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sluicegate.cli import main
from sluicegate.config.errors import ConfigErrors
from sluicegate.config.load import load
from sluicegate.runtime.plugins import CHOICE, load_plugins

_ROOT = Path(__file__).parents[2]
_FILE = """\
brokers:
  - name: main
    system: {system}
    bootstrap: ["127.0.0.1:1"]
    listen: {{port: 0}}
    nonsense: 1
"""
_ABSENT = {"danube": ("hpack", "hpack"), "kafka": ("aiokafka", "aiokafka"), "pulsar": ("httpx", "httpx")}
"""A module that each room needs, and the distribution that brings it."""


@pytest.fixture(autouse=True)
def all_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "danube,kafka,pulsar")


def refused(system: str, tmp_path: Path) -> list[Any]:
    file = tmp_path / "gateway.yaml"
    file.write_text(_FILE.format(system=system))
    plugins = load_plugins(())
    with pytest.raises(ConfigErrors) as caught:
        load(file, plugins.policy_models, plugins.broker_models, {})
    return list(caught.value.errors)


@pytest.mark.parametrize("system", _ABSENT)
def test_the_error_for_a_missing_extra_says_what_to_install(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, distribution = _ABSENT[system]
    monkeypatch.setitem(sys.modules, module, None)
    first, second = refused(system, tmp_path)
    assert (first.line, first.column) == (3, 13)
    assert first.message == f"cannot serve system {system!r}: {distribution} is not installed"
    assert first.remedy == f"pip install 'sluicegate[{system}]'"
    assert "nonsense" in second.message  # the rest of the entry is checked too


def test_a_single_missing_extra_gets_the_same_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "kafka")
    monkeypatch.setitem(sys.modules, "aiokafka", None)
    first, _ = refused("kafka", tmp_path)
    assert first.message == "cannot serve system 'kafka': aiokafka is not installed"


def test_a_room_without_its_extra_is_left_out_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    plugins = load_plugins(())
    assert set(plugins.drivers) == {"danube", "kafka"}
    assert (
        plugins.left_out["pulsar"].explanation
        == "httpx is not installed; do: pip install 'sluicegate[pulsar]'"
    )
    assert "pulsar" not in [ask.plugin for ask in plugins.implementations("sluicegate_commands")]
    assert "pulsar" not in [info.name for info in plugins.overview()]


def test_with_all_extras_nothing_is_left_out() -> None:
    plugins = load_plugins(())
    assert set(plugins.drivers) == {"danube", "kafka", "pulsar"}
    assert plugins.left_out == {}


def test_each_extra_has_the_requirements_of_its_room() -> None:
    """The remedy must bring every distribution that the room asks for."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    for system, driver in load_plugins(()).drivers.items():
        extra = driver.extra
        assert extra.name == f"{project['name']}[{system}]"
        wanted = " ".join(
            [*extras[system], *(extras["grpc"] if "sluicegate[grpc]" in extras[system] else [])]
        )
        assert [name for name in extra.modules.values() if f"{name}>=" not in wanted] == []


_NO_THIRD_PARTY = """
import sys
for name in {names!r}: sys.modules[name] = None
from sluicegate.cli import main
main({arguments!r}, prog_name="sluicegate")
"""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--help"], "Run the gateway for the brokers"),
        (["plugins", "list"], "left out: pulsar: protobuf, httpx are not installed; do: pip install"),
        (["compare", "scenarios"], "publish-rate"),
    ],
)
def test_commands_run_without_extras(
    arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The modules of all extras are hidden; an import of one of them anywhere on the way would fail."""
    monkeypatch.delenv(CHOICE)
    names = (
        *("aiokafka", "confluent_kafka", "httpx", "google.protobuf", "google.rpc", "pulsar"),
        *("grpc", "grpc_status", "hpack", "danube", "numpy", "pandas", "pyspark"),
    )
    code = _NO_THIRD_PARTY.format(names=names, arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert told in done.stdout


def test_the_package_runs_with_python_m() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sluicegate", "check", "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: sluicegate check [OPTIONS] FILE\n")


def test_a_file_is_checked_where_one_of_its_extras_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    entry = '  - {{name: {0}, system: {0}, bootstrap: ["127.0.0.1:1"], listen: {{port: {1}}}}}\n'
    policies = (
        "policies:\n"
        "  broker: {ceiling: {max_publish_rate: 5}}\n"
        '  topics: [{name: "orders*", max_publish_rate: 9}]\n'
    )
    file = tmp_path / "gateway.yaml"
    file.write_text(f"brokers:\n{entry.format('kafka', 19092)}{entry.format('pulsar', 16650)}{policies}")
    checked = CliRunner().invoke(main, ["check", str(file)], catch_exceptions=False)
    assert (checked.exit_code, checked.stdout.startswith(f"{file}: ok, brokers kafka")) == (0, True)
    assert "warning[config]: cannot serve system 'pulsar' here: httpx is not installed" in checked.stderr
    assert "pip install 'sluicegate[pulsar]'" in checked.stderr
    assert "max_publish_rate 9/s is above the broker ceiling" in checked.stderr, "the rest is checked"

    file.write_text(file.read_text().replace("max_publish_rate: 9", "max_publish_rte: 9"))
    wrong = CliRunner().invoke(main, ["check", str(file)], catch_exceptions=False)
    assert (wrong.exit_code, "unknown key 'max_publish_rte'" in wrong.stderr) == (1, True)
