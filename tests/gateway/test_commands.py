import pytest
from click.testing import CliRunner

from sluicegate.cli import main
from sluicegate.runtime.plugins import CHOICE


def test_plugins_list_says_what_is_loaded_and_which_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "")
    result = CliRunner().invoke(main, ["plugins", "list"])
    assert result.exit_code == 0
    lines = [line.split(maxsplit=3) for line in result.output.splitlines()]
    assert lines[0] == ["plugin", "version", "from", "hooks"]
    assert ["sluicegate.store.plugin", "0.1.0", "built"] in [line[:3] for line in lines]
    assert any(
        line[0] == "sluicegate.policies.rates" and "sluicegate_policy_checks" in line[3] for line in lines
    )


def test_plugin_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "nonsense")
    result = CliRunner().invoke(main, ["plugins", "list"])
    assert result.exit_code == 1
    assert "SLUICEGATE_LOAD_PLUGINS names 'nonsense'" in result.output


def test_run_lists_every_option() -> None:
    result = CliRunner().invoke(main, ["run", "--help"])
    assert result.exit_code == 0
    for option in ("--config", "--drain-timeout", "SIGHUP", "SIGTERM"):
        assert option in result.output


def test_run_refuses_a_file_that_does_not_exist() -> None:
    result = CliRunner().invoke(main, ["run", "-c", "no-such.yaml"])
    assert result.exit_code == 1
    assert "cannot read 'no-such.yaml'" in result.output


@pytest.mark.parametrize("seconds", ["inf", "nan", "-1"])
def test_run_refuses_a_drain_timeout_that_is_no_time(seconds: str) -> None:
    """What is not finite would be lost on its way to the worker, or keep the gateway from draining."""
    result = CliRunner().invoke(main, ["run", "-c", "none.yaml", "--drain-timeout", seconds])
    assert result.exit_code == 2
    assert "--drain-timeout" in result.stderr
    assert seconds in result.stderr
