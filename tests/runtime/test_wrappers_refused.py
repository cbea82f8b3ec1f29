"""A hook that is implemented as a wrapper is refused: by the gateway, and by the kit for authors."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pluggy
import pytest
from click.testing import CliRunner

from sluicegate import hookimpl
from sluicegate.cli import main
from sluicegate.model import TopicName
from sluicegate.runtime.plugins import CHOICE, PluginError, load_plugins
from sluicegate.testing import build_gate, plugin_manager

REASON = (
    r"wraps implements sluicegate_policy_checks with hookimpl\({option}=True\), expected a plain hookimpl: "
    "each plugin is asked on its own, so there is no call to wrap; take the option away and return this "
    "plugin's own answer"
)
OPTIONS = ["wrapper", "hookwrapper"]


@pytest.fixture(autouse=True)
def no_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "")


def wrapping(option: str, name: str = "sluicegate_policy_checks", **more: str) -> ModuleType:
    """A plugin `wraps` whose only function, under `name`, is a wrapper."""

    def wrap(topic: TopicName) -> Iterator[None]:
        yield

    plugin = ModuleType("wraps")
    setattr(plugin, name, hookimpl(**{option: True}, **more)(wrap))  # type: ignore[call-overload]
    return plugin


@pytest.mark.parametrize("option", OPTIONS)
def test_a_gateway_refuses_a_wrapper(option: str) -> None:
    reason = f"^plugin 'wraps' cannot be used: {REASON.format(option=option)}$"
    with pytest.raises(PluginError, match=reason):
        load_plugins((), [wrapping(option)])


@pytest.mark.parametrize("option", OPTIONS)
def test_the_kit_refuses_a_wrapper(option: str) -> None:
    for make in (
        lambda plugin: plugin_manager([plugin]),
        lambda plugin: build_gate({}, [plugin], now_ns=0),
    ):
        with pytest.raises(pluggy.PluginValidationError, match=f"^{REASON.format(option=option)}$"):
            make(wrapping(option))


def test_a_renamed_wrapper_is_reported_under_its_hook() -> None:
    plugin = wrapping("wrapper", "around", specname="sluicegate_policy_checks")
    with pytest.raises(PluginError, match="wraps implements sluicegate_policy_checks with"):
        load_plugins((), [plugin])


def test_other_marker_options_are_accepted() -> None:
    class Own:
        @hookimpl(tryfirst=True, specname="sluicegate_policy_checks")
        def checks(self, topic: TopicName) -> list[object]:
            return []

    [*_, last] = load_plugins((), [Own()]).implementations("sluicegate_policy_checks")
    assert last.plugin.endswith("Own")


def test_check_names_the_line_of_a_file_whose_plugin_wraps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wraps.py").write_text(
        "from sluicegate import hookimpl\n\n\n"
        "@hookimpl(wrapper=True)\ndef sluicegate_policy_checks():\n    return (yield)\n"
    )
    file = tmp_path / "gateway.yaml"
    file.write_text("brokers: []\nplugins: [wraps]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    result = CliRunner().invoke(main, ["check", str(file)])
    assert result.exit_code != 0
    assert "gateway.yaml:2:" in result.output
    assert "plugin 'wraps' cannot be used: wraps implements sluicegate_policy_checks" in result.output
