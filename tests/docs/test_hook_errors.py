"""What docs/hooks.md says is seen of a hook that raises is what is seen."""

from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic_ns
from types import ModuleType

import pytest
from tests.docs.test_hooks_documented import HOOKS, section

from sluicegate.api import Operation, OperationKind, PolicyEngine, Task, hookimpl
from sluicegate.cli import opening
from sluicegate.config.models import Budgets
from sluicegate.demo.parts import show_parts
from sluicegate.leasing.joining import holder_of
from sluicegate.runtime.plugins import CHOICE, PluginError, Plugins, load_plugins
from sluicegate.testing import load_plugin

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "hooks"
AT_START: dict[str, Callable[[Plugins], object]] = {
    "sluicegate_policy_model": lambda plugins: plugins.policy_models,
    "sluicegate_broker": lambda plugins: plugins.drivers,
    "sluicegate_method_map": lambda plugins: plugins.method_maps,
    "sluicegate_grpc_driver": lambda plugins: plugins.drivers,
    "sluicegate_metadata_store": lambda plugins: plugins.open_store("memory:"),
}
ELSEWHERE = {"sluicegate_commands", "sluicegate_demo", "sluicegate_budget_store"}
LOGGED = sorted(HOOKS.keys() - AT_START.keys() - ELSEWHERE)


def mine(hook: str) -> ModuleType:
    """A plugin whose hook raises."""

    def implementation() -> None:
        raise KeyError("x")

    plugin = ModuleType("mine")
    setattr(plugin, hook, hookimpl(implementation))
    return plugin


@pytest.fixture(autouse=True)
def _nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "")


@pytest.fixture
def engine_of(tmp_path: Path) -> Iterator[Callable[[ModuleType], PolicyEngine]]:
    """Makes an engine with a plugin."""
    made: list[PolicyEngine] = []

    def make(plugin: ModuleType) -> PolicyEngine:
        file = tmp_path / "gateway.yaml"
        file.write_text(f"brokers: [{{name: shop, system: service}}]\nstate_dir: {tmp_path}/state\n")
        made.append(PolicyEngine.from_file(file, plugins=[plugin], environ={}))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


@pytest.mark.parametrize("hook", AT_START)
def test_at_start_the_plugin_is_named(hook: str) -> None:
    with pytest.raises(PluginError) as raised:
        AT_START[hook](load_plugins((), [load_plugin(EXAMPLES / "method_map.py"), mine(hook)]))
    assert f"`{raised.value}`" in section(hook)


@pytest.mark.parametrize("hook", LOGGED)
def test_in_the_log_the_plugin_is_named(
    hook: str, engine_of: Callable[[ModuleType], PolicyEngine], caplog: pytest.LogCaptureFixture
) -> None:
    engine = engine_of(mine(hook))
    refused = Operation(OperationKind.PUBLISH, "orders.eu", messages=1, bytes=1 << 30, largest=1 << 30)
    with engine.lock:
        engine.gate("orders.eu", False, 0).decide(refused, monotonic_ns())
        engine.context.quota("User:ann")
    engine.close()
    [line] = {
        f"{record.levelname} {record.getMessage()}"
        for record in caplog.records
        if record.exc_info or "mine" in record.getMessage()
    }
    assert f"`{line}`" in section(hook)


def test_a_run_of_a_task_that_raises_is_logged(
    engine_of: Callable[[ModuleType], PolicyEngine], caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        raise KeyError("x")

    plugin = ModuleType("mine")
    plugin.sluicegate_tasks = hookimpl(lambda: [Task("refresh", lambda: 60_000, run)])  # type: ignore[attr-defined]
    engine_of(plugin).close()
    assert "`ERROR task refresh of plugin mine failed: KeyError: 'x'`" in section("sluicegate_tasks")
    assert "task refresh of plugin mine failed: KeyError: 'x'" in caplog.messages


def test_commands_and_demo_name_the_plugin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    hook = "sluicegate_commands"
    monkeypatch.setattr(opening, "load_plugins", lambda modules: load_plugins(modules, [mine(hook)]))
    assert opening.plugin_commands() == []
    assert f"`{capsys.readouterr().err.strip()}`" in section(hook)

    hook = "sluicegate_demo"
    [problem] = show_parts(load_plugins((), [mine(hook)]), tmp_path, (), True)
    assert f"`{problem}`" in section(hook)


async def test_a_budget_store_that_cannot_be_opened_is_away(caplog: pytest.LogCaptureFixture) -> None:
    hook = "sluicegate_budget_store"
    plugins = load_plugins((), [mine(hook)])
    settings = Budgets(url="mine:", lease=40, timeout=10)
    holder = holder_of(settings, "shop", plugins.open_budgets, lambda: "1")
    while not caplog.records:
        await holder.join()
    [line] = [f"{record.levelname} {record.getMessage()}" for record in caplog.records]
    said = line.partition("; this gateway")[0]
    assert f"`{said}`" in section(hook)
