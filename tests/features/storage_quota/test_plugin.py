"""What the plugin gives to a gateway, by what its entry says."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.features.storage_quota.lab import Context

from sluicegate.cli import main
from sluicegate.features.storage_quota.plugin import StorageQuotas

PROMETHEUS = {"source": "prometheus", "url": "http://p", "capacity_query": "a", "free_query": "b"}


def names(context: Context) -> tuple[list[str], list[str]]:
    """Factors and tasks for one gateway."""
    plugin = StorageQuotas()
    factors = [factor.name for factor in plugin.sluicegate_quota_factors(context.as_context)]
    return factors, [task.name for task in plugin.sluicegate_tasks(context.as_context)]


@pytest.mark.seed("S4-001", "S4-003", "S4-006", "S4-007", "S4-070")
@pytest.mark.parametrize("storage", [{"source": "path", "paths": ["/"]}, PROMETHEUS])
def test_sources_that_need_no_broker_give_a_factor_and_a_task(storage: dict[str, object]) -> None:
    assert names(Context(storage)) == (["storage_quota"], ["storage_quota"])


@pytest.mark.parametrize(
    "storage",
    [{"source": "log_dirs"}, {"source": "snapshots", "topic": "t"}, {**PROMETHEUS, "publish_snapshots": "t"}],
)
def test_sources_that_need_a_broker_are_left_to_its_room(storage: dict[str, object]) -> None:
    assert names(Context(storage)) == ([], [])


def test_limits_without_a_source_cause_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert names(Context(None)) == ([], [])
    assert caplog.messages == []
    assert names(Context(None, storage_hard_min_free_bytes=5)) == ([], [])
    assert caplog.messages == [
        "limits of storage_quota have no effect on broker main, which has no 'storage:' section"
    ]


def test_a_task_follows_the_interval() -> None:
    context = Context({"source": "path", "paths": ["/"], "interval": "5s"})
    plugin = StorageQuotas()
    plugin.sluicegate_quota_factors(context.as_context)
    [task] = plugin.sluicegate_tasks(context.as_context)
    assert task.interval_ms() == 5_000


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], tuple[int, str]]:
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka")
    monkeypatch.chdir(tmp_path)

    def check_it(entry: str, policies: str) -> tuple[int, str]:
        Path("g.yaml").write_text(
            "brokers:\n  - name: main\n    system: kafka\n    bootstrap: ['a:1']\n    listen: {port: 1}\n"
            f"    {entry}\npolicies: {{broker: {policies}}}\n"
        )
        done = CliRunner().invoke(main, ["check", "g.yaml"], catch_exceptions=False)
        return done.exit_code, done.stderr

    return check_it


def test_check_warns_of_limits_without_a_source(check: Callable[[str, str], tuple[int, str]]) -> None:
    limit = "{storage_hard_min_free_bytes: 5}"
    code, told = check("", limit)
    assert code == 0
    assert told.startswith(
        "warning[config]: 'storage_hard_min_free_bytes' has no effect on broker 'main', "
        "which has no 'storage:' section\n  --> g.yaml:7:50  (policies.broker.storage_hard_min_free_bytes)\n"
    )
    assert check("storage: {source: path, paths: [/]}", limit) == (0, "")
    assert check("", "{storage_hard_min_free_bytes: 0}") == (0, "")
