"""The ten keys: names, defaults, what is refused in the file and by the store, and what holds then."""

import logging
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.features.adaptive.lab import Lab
from tests.runtime.rules import change_beside

from sluicegate.broker import PolicyRefusedError
from sluicegate.config.errors import ConfigErrors
from sluicegate.config.fields import PolicyFields
from sluicegate.config.load import Loaded, load
from sluicegate.config.models import BrokerConfig
from sluicegate.features.adaptive.settings import (
    BACKLOG_HIGH,
    BACKLOG_LOW,
    DEFAULTS,
    MEMORY_HIGH,
    MEMORY_LOW,
    NAMES,
    RELEASE,
    AdaptivePolicies,
    Settings,
    alias_of,
)
from sluicegate.model import EffectivePolicies, Level
from sluicegate.policies import builtin_plugins
from sluicegate.store.memory import MemoryStore

KEYS = {
    "adaptivePublisherThrottlingEnabled": False,
    "adaptivePublisherThrottlingObserveOnly": False,
    "adaptivePublisherThrottlingIntervalMs": 1000,
    "adaptivePublisherThrottlingMemoryHighWatermarkPct": 0.85,
    "adaptivePublisherThrottlingMemoryLowWatermarkPct": 0.70,
    "adaptivePublisherThrottlingBacklogHighWatermarkPct": 0.90,
    "adaptivePublisherThrottlingBacklogLowWatermarkPct": 0.75,
    "adaptivePublisherThrottlingMinRateFactor": 0.10,
    "adaptivePublisherThrottlingMaxRateChangeFactor": 0.25,
    "adaptivePublisherThrottlingPerTopicMetricsEnabled": False,
}
"""The keys of Pulsar's `broker.conf` with their defaults."""
FIELDS = PolicyFields.of([AdaptivePolicies])
REFUSED = "sluicegate_adaptive_throttle_settings_refused_total"


HEAD = """\
brokers:
  - name: events
    system: any
    bootstrap: ['localhost:1']
    listen: {port: 0}
policies:
"""


def read(directory: Path, *lines: str, rest: str = "") -> Loaded:
    """Load a file with these lines at the broker's level."""
    file = directory / "gateway.yaml"
    file.write_text(HEAD + "  broker:\n" + "".join(f"    {line}\n" for line in lines) + rest)
    models = [
        plugin.sluicegate_policy_model()
        for plugin in builtin_plugins()
        if hasattr(plugin, "sluicegate_policy_model")
    ]
    return load(file, models, [BrokerConfig], {})


@pytest.mark.seed(
    "S5-001", "S5-002", "S5-003", "S5-004", "S5-005", "S5-006", "S5-007", "S5-008", "S5-009", "S5-010"
)
@pytest.mark.parametrize(("key", "default"), KEYS.items())
def test_the_keys_have_pulsars_names_and_defaults(key: str, default: object, tmp_path: Path) -> None:
    name = AdaptivePolicies.aliases[key]
    assert alias_of(name) == key
    assert DEFAULTS[name] == default
    other: object = (not default) if isinstance(default, bool) else 250 if default == 1000 else 0.8
    loaded = read(tmp_path, f"{key}: {str(other).lower()}")
    [layer] = loaded.policy_layers
    assert layer.settings[name].value == other
    assert FIELDS.defaults[name] == default


@pytest.mark.seed("S5-001", "S5-039")
def test_there_is_one_more_key_for_the_release() -> None:
    assert set(NAMES) - set(AdaptivePolicies.aliases.values()) == set()
    assert {alias_of(name) for name in NAMES} - set(KEYS) == {"adaptivePublisherThrottlingRelease"}
    assert DEFAULTS[RELEASE] == "immediate"
    assert FIELDS.parse(RELEASE, "ramp") == "ramp"
    with pytest.raises(ValidationError):
        FIELDS.parse(RELEASE, "slowly")


@pytest.mark.seed("S5-011")
@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("memory_high_watermark_pct", 85, "85 is not between 0 and 1"),
        ("memory_high_watermark_pct", 1.0001, "1.0001 is not between 0 and 1"),
        ("backlog_low_watermark_pct", -0.1, "-0.1 is not between 0 and 1"),
        ("min_rate_factor", True, "True is not a fraction"),
        ("min_rate_factor", "10%", "'10%' is not a fraction"),
        ("max_rate_change_factor", float("nan"), "nan is not between 0 and 1"),
        ("max_rate_change_factor", float("inf"), "inf is not between 0 and 1"),
        ("interval_ms", 0, "greater than 0"),
        ("interval_ms", -5, "-5 is negative"),
        ("interval_ms", 1.5, "1.5 is not a whole number"),
        ("observe_only", 1, "valid boolean"),
        ("enabled", "yes", "valid boolean"),
    ],
)
def test_values_that_are_refused(field: str, value: object, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        FIELDS.parse(f"adaptive_publish_throttling_{field}", value)


@pytest.mark.seed("S5-005", "S5-007", "S5-011")
@pytest.mark.parametrize(
    ("lines", "place", "problem"),
    [
        ((f"{MEMORY_LOW}: 0.9",), 8, f"{MEMORY_LOW} 0.9 is not below {MEMORY_HIGH} 0.85"),
        ((f"{MEMORY_HIGH}: 0.5",), 8, f"{MEMORY_LOW} 0.7 is not below {MEMORY_HIGH} 0.5"),
        (
            (f"{BACKLOG_LOW}: 0.8", f"{BACKLOG_HIGH}: 0.8"),
            8,
            f"{BACKLOG_LOW} 0.8 is not below {BACKLOG_HIGH} 0.8",
        ),
        (("adaptivePublisherThrottlingBacklogHighWatermarkPct: 0.1",), 8, f"{BACKLOG_LOW} 0.75 is not below"),
    ],
)
def test_a_file_with_crossed_watermarks_is_refused_with_the_place(
    lines: tuple[str, ...], place: int, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigErrors) as refused:
        read(tmp_path, *lines)
    [error] = refused.value.errors
    assert problem in error.message
    assert error.line == place
    assert error.remedy == "lower the one or raise the other"


@pytest.mark.seed("S5-001", "S5-011")
def test_only_a_whole_broker_can_have_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors) as refused:
        read(tmp_path, "burst_seconds: 1", rest=f"  topics: [{{name: t, {RELEASE}: ramp}}]\n")
    [error] = refused.value.errors
    assert error.message == f"'{RELEASE}' applies to a whole broker, not to one topic"


@pytest.mark.seed("S5-011")
def test_the_store_takes_no_value_that_contradicts_the_file_or_the_store(tmp_path: Path) -> None:
    loaded, store = read(tmp_path, f"{MEMORY_LOW}: 0.80"), MemoryStore()

    def change(**changes: object) -> None:
        named = {f"adaptive_publish_throttling_{name}": value for name, value in changes.items()}
        change_beside(store, loaded.fields, Level.BROKER, "", named, "ann", loaded.policy_layers)

    with pytest.raises(PolicyRefusedError, match=f"{MEMORY_LOW} 0.8 is not below {MEMORY_HIGH} 0.75"):
        change(memory_high_watermark_pct=0.75)
    assert store.layers()[1] == ()
    change(memory_low_watermark_pct=0.6, memory_high_watermark_pct=0.75)
    with pytest.raises(PolicyRefusedError, match="is not below"):
        change(memory_low_watermark_pct=None)  # the file's 0.80 would hold again
    with pytest.raises(PolicyRefusedError, match="is not below"):
        change(memory_low_watermark_pct=0.76, interval_ms=5)
    [layer] = store.layers()[1]
    assert {name: setting.value for name, setting in layer.settings.items()} == {
        MEMORY_LOW: 0.6,
        MEMORY_HIGH: 0.75,
    }
    change(memory_high_watermark_pct=None)  # 0.85, the default


@pytest.mark.seed("S5-011", "S5-075")
def test_contradictions_that_come_about_all_the_same_leave_the_old_values(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "sluicegate.plugin.adaptive")
    lab = Lab(settings={MEMORY_LOW: 0.70, MEMORY_HIGH: 0.80})
    lab.learn(1000)
    lab.memory = 0.75
    lab.set(memory_low_watermark_pct=0.9, interval_ms=200)
    lab.cycle(times=10)
    assert lab.topic().messages_per_s == 550  # pressure 0.5, by 0.70 and 0.80
    assert lab.controller.interval_ms() == 1000
    assert lab.metrics[REFUSED] == 1
    [error] = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert "settings refused, the last ones stay in effect" in error
    assert f"{MEMORY_LOW} 0.9 is not below {MEMORY_HIGH} 0.8" in error
    assert f"{MEMORY_LOW} 0.9 is not below" in lab.context.facts["adaptive.status"]
    lab.set(memory_low_watermark_pct=0.6)
    lab.cycle(times=10)
    assert lab.controller.interval_ms() == 200
    assert lab.topic().messages_per_s == 325  # pressure 0.75
    assert '"settings_refused": ""' in lab.context.facts["adaptive.status"]
    assert lab.metrics[REFUSED] == 1


@pytest.mark.seed("S5-002", "S5-003", "S5-008", "S5-009", "S5-012")
def test_every_cycle_reads_the_settings_again() -> None:
    lab = Lab()
    lab.learn(1000)
    lab.press(0.95)
    lab.set(max_rate_change_factor=0.5, min_rate_factor=0.2, interval_ms=50)
    assert lab.tasks[0].interval_ms() == 50
    found = []
    for _ in range(3):
        lab.cycle()
        found.append(lab.topic().messages_per_s)
    assert found == [500, 200, 200]
    lab.set(min_rate_factor=0.6)
    lab.cycle()
    assert lab.topic().messages_per_s == 600


@pytest.mark.seed("S5-001", "S5-012")
def test_enabling_and_disabling_need_a_restart_and_log_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sluicegate.plugin.adaptive")
    lab = Lab(enabled=False)
    lab._policies["adaptive_publish_throttling_enabled"] = True
    for _ in range(3):
        lab.gate("t0")
    running = Lab()
    running.set(enabled=False)
    running.cycle(times=3)
    assert running.tasks != []
    assert caplog.messages == [
        "restart the gateway to apply: adaptive_publish_throttling_enabled",
        "restart the gateway to apply: adaptive_publish_throttling_enabled false",
    ]


@pytest.mark.seed("S5-075")
def test_the_settings_are_what_the_policies_say() -> None:
    values = {**DEFAULTS, MEMORY_LOW: 0.1, RELEASE: "ramp"}
    found = Settings.of(EffectivePolicies("", 1, values, {}, observe_only=True))
    assert found == Settings(memory_low=0.1, ramp_release=True, observe_only=True)
    assert Settings.of(EffectivePolicies("", 1, {}, {})) == Settings()
