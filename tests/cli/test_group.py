"""The command itself: quick to start, clear about what it does not know."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from sluicegate import __version__

Run = Callable[..., Result]


def test_help_lists_every_command(run_in: Run) -> None:
    result = run_in(None, "--help")
    assert result.exit_code == 0
    for name in ("run", "demo", "check", "schema", "explain", "plugins"):
        assert f"\n  {name} " in result.stdout


def test_the_version_is_shown(run_in: Run) -> None:
    assert run_in(None, "--version").stdout == f"sluicegate, version {__version__}\n"


def test_an_unknown_command_is_answered_with_the_known_ones(run_in: Run) -> None:
    result = run_in(None, "chek", "gateway.yaml")
    assert result.exit_code == 2
    assert "unknown command 'chek'; known commands: run, demo, check, " in result.stderr


@pytest.mark.parametrize(
    "arguments", [("schema",), ("plugins", "list"), ("check",), ("explain", "orders.eu")]
)
def test_a_missing_file_is_reported(run_in: Run, arguments: tuple[str, ...]) -> None:
    option = () if arguments == ("check",) else ("-c",)
    result = run_in(None, *arguments, *option, "other.yaml")
    assert result.exit_code != 0
    assert "other.yaml" in result.stderr


def test_a_command_imports_only_what_it_needs() -> None:
    code = (
        "import sys, sluicegate.cli as cli\n"
        "try: cli.main(['check', '--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('pyarrow', 'uvloop', 'starlette', 'aiokafka') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


ACME = """\
import click
from sluicegate import hookimpl


@click.command("acme", help="Do what Acme does.")
def acme() -> None:
    click.echo("done")


@hookimpl
def sluicegate_commands():
    return [acme]
"""


def install(name: str, source: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a module with an entry point, as a distribution of somebody else's has it."""
    (directory / f"{name}.py").write_text(source)
    metadata = directory / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[sluicegate.plugins]\n{name} = {name}\n")
    monkeypatch.syspath_prepend(str(directory))


def test_hook_sluicegate_commands_adds_a_command(
    run_in: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("acme_commands", ACME, tmp_path, monkeypatch)
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "acme_commands")
    assert run_in(None, "acme").stdout == "done\n"
    assert "Do what Acme does." in run_in(None, "--help").stdout


def test_a_plugin_whose_commands_fail_stops_no_other(
    run_in: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("acme_broken", ACME.replace("return [acme]", "raise OSError('no')"), tmp_path, monkeypatch)
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "acme_broken")
    result = run_in(None, "--help")
    assert result.exit_code == 0
    assert "warning: plugin 'acme_broken': sluicegate_commands raised OSError('no')" in result.stderr
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "not_installed")
    result = run_in(None, "--help")
    assert result.exit_code == 0
    assert "SLUICEGATE_LOAD_PLUGINS names 'not_installed'" in result.stderr


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("schema",), ("explain", "--help")])
def test_a_full_disk_is_told_in_one_line(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "sluicegate", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "Error: cannot write to standard output: No space left on device\n"
