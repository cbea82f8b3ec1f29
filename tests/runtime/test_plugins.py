import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.gateway import echo_plugin

from sluicegate import hookimpl
from sluicegate.runtime.plugins import CHOICE, PluginError, load_plugins
from sluicegate.store import MemoryStore


@pytest.fixture(autouse=True)
def no_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "")


def test_built_in_plugins_are_listed_with_their_hooks() -> None:
    overview = {info.name: info for info in load_plugins(()).overview()}
    assert overview["sluicegate.policies.size"].origin == "built in"
    assert "sluicegate_policy_checks" in overview["sluicegate.policies.size"].hooks
    assert {
        "sluicegate.adaptive.plugin.AdaptiveThrottling",
        "sluicegate.pressure.plugin",
        "sluicegate.storage_quota.plugin.StorageQuotas",
    } < set(overview)
    assert overview["sluicegate.store.plugin"].hooks == ("sluicegate_metadata_store",)


def test_modules_of_the_file_are_loaded_by_name() -> None:
    plugins = load_plugins(["tests.gateway.echo_plugin"])
    assert plugins.drivers["echo"].config_model is echo_plugin.EchoConfig
    assert plugins.broker_models == (echo_plugin.EchoConfig,)
    assert plugins.overview()[-1].origin == "file"


def test_entry_points_are_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "kafka")
    assert "kafka" in load_plugins(()).drivers
    monkeypatch.setenv(CHOICE, "nonsense")
    with pytest.raises(PluginError, match=r"names 'nonsense', but the installed plugins are: .*kafka"):
        load_plugins(())


def test_module_that_raises_is_named_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_plugin.py").write_text("raise RuntimeError('out of order')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PluginError, match="'broken_plugin' cannot be imported: RuntimeError: out of order"):
        load_plugins(["broken_plugin"])
    assert "broken_plugin" not in sys.modules


def test_an_implementation_of_an_unknown_hook_is_refused() -> None:
    plugin = ModuleType("misspelt")

    @hookimpl
    def sluicegate_polcy_checks() -> None: ...

    plugin.sluicegate_polcy_checks = sluicegate_polcy_checks  # type: ignore[attr-defined]
    with pytest.raises(PluginError, match="misspelt"):
        load_plugins((), [plugin])


def test_two_drivers_of_one_system_are_refused() -> None:
    class Second:
        sluicegate_broker = staticmethod(hookimpl(lambda: echo_plugin.EchoDriver()))

    with pytest.raises(PluginError, match="drives 'echo', which another plugin does already"):
        _ = load_plugins(["tests.gateway.echo_plugin"], [Second()]).drivers


def test_an_invalid_policy_model_is_refused() -> None:
    class Odd:
        @hookimpl
        def sluicegate_policy_model(self) -> object:
            return int

    with pytest.raises(PluginError, match=r"Odd.*expected subclasses of"):
        _ = load_plugins((), [Odd()]).policy_models


def test_the_first_plugin_that_supports_a_url_opens_the_store() -> None:
    class Own:
        @hookimpl
        def sluicegate_metadata_store(self, url: str) -> MemoryStore | None:
            return own if url.startswith("memory:") else None

    own = MemoryStore()
    assert load_plugins((), [Own()]).open_store("memory:") is own
    with pytest.raises(PluginError, match="no plugin opens the store 'consul://x'"):
        load_plugins(()).open_store("consul://x")
