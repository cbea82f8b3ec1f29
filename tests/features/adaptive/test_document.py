"""The document: its quick start is a file that can be read, and its guide names what there is."""

import re
from pathlib import Path

import pytest
from tests.features.adaptive.test_settings import HEAD

from sluicegate.config.load import load
from sluicegate.config.models import BrokerConfig
from sluicegate.features.adaptive.settings import DEFAULTS, ENABLED, NAMES, OBSERVE_ONLY
from sluicegate.policies import builtin_plugins

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "adaptive-throttling.md").read_text()
SAMPLE = (ROOT / "examples" / "gateway.yaml").read_text()


@pytest.mark.seed("S5-074")
def test_the_quick_start_names_all_keys_with_their_defaults(tmp_path: Path) -> None:
    [snippet, *_] = re.findall(r"```yaml\n(policies:.*?)```", TEXT, re.DOTALL)
    uncommented = re.sub(r"^    # (adaptive)", r"    \1", snippet, flags=re.MULTILINE)
    file = tmp_path / "gateway.yaml"
    file.write_text(HEAD.removesuffix("policies:\n") + uncommented)
    models = [
        plugin.sluicegate_policy_model()
        for plugin in builtin_plugins()
        if hasattr(plugin, "sluicegate_policy_model")
    ]
    [layer] = load(file, models, [BrokerConfig], {}).policy_layers
    found = {name: setting.value for name, setting in layer.settings.items()}
    assert found == {**DEFAULTS, ENABLED: True, OBSERVE_ONLY: True}
    assert "**Experimental.** Off by default" in TEXT


@pytest.mark.seed("S5-074")
def test_the_sample_file_has_all_keys_commented_and_says_that_they_are_experimental() -> None:
    for name in NAMES:
        assert re.search(rf"^    # {name}: \S+$", SAMPLE, re.MULTILINE), name
    assert re.search(r"# Experimental: publish rates that follow the pressure", SAMPLE)


@pytest.mark.seed("S5-073")
def test_the_guide_has_six_steps() -> None:
    guide = TEXT.partition("## Troubleshooting")[2].partition("\n## ")[0]
    steps = re.split(r"^\d\. ", guide, flags=re.MULTILINE)[1:]
    names = [
        ("[AdaptiveThrottle] ACTIVATED topic=", "max_publish_rate"),
        ("memoryPressure=", "backlogPressure=", "memory_pressure", "stronger"),
        ("memory_high_watermark_pct", "backlog_high_watermark_pct", "observe_only: true", "lag", "quota"),
        ("active_topic_count", "OBSERVE-ONLY would-activate", "would_throttle"),
        ("failure_count_total", "Evaluation cycle failed", "timestamp", "restart"),
        ("DEACTIVATED", "**and**", "watermarks"),
    ]
    assert len(steps) == 6
    for step, wanted in zip(steps, names, strict=True):
        assert [name for name in wanted if name not in step] == []


@pytest.mark.seed("S5-086")
def test_three_tiers_of_tests_are_documented_and_what_they_name_is_there() -> None:
    commands = re.findall(r"`(tox run -e (\w+)[^`]*)`", TEXT)
    assert [environment for _, environment in commands] == ["py", "py", "broker"]
    development = (ROOT / "docs" / "development.md").read_text()
    for command, environment in commands:
        assert f"`tox run -e {environment}`" in development
        for place in re.findall(r"tests/\w+", command):
            assert (ROOT / place).is_dir()
