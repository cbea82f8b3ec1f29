"""Which series are published, with which values, and that a broker without the feature has none."""

import pytest
from tests.features.adaptive.lab import FakeContext, Lab

from sluicegate.engine.pressure import Backlog
from sluicegate.features.adaptive.controller_state import KEY
from sluicegate.features.adaptive.plugin import AdaptiveThrottling
from sluicegate.features.adaptive.settings import ENABLED, MEMORY_HIGH, MEMORY_LOW
from sluicegate.testing import ManualClock

BROKER = {
    "pulsar_broker_adaptive_throttle_memory_pressure",
    "pulsar_broker_adaptive_throttle_active_topic_count",
    "pulsar_broker_adaptive_throttle_activation_count_total",
    "pulsar_broker_adaptive_throttle_controller_last_evaluation_timestamp",
    "pulsar_broker_adaptive_throttle_controller_evaluation_duration",
    "pulsar_broker_adaptive_throttle_controller_evaluation_failure_count_total",
}
TOPIC = {
    f"pulsar_broker_topic_adaptive_throttle_{name}"
    for name in (
        "active",
        "natural_publish_rate",
        "effective_publish_rate",
        "memory_pressure",
        "backlog_pressure",
        "rate_reduction_ratio",
    )
}


def of_topic(lab: Lab, name: str = "t0") -> dict[str, float]:
    prefix = "pulsar_broker_topic_adaptive_throttle_"
    return {
        metric.removeprefix(prefix): values[(name,)]
        for metric, values in lab.metrics.values.items()
        if metric.startswith(prefix)
    }


@pytest.mark.seed("S5-050", "S5-085")
def test_a_broker_without_it_has_no_task_no_limiter_and_no_series() -> None:
    lab = Lab(topics=3, enabled=False)
    assert lab.tasks == []
    assert lab.metrics.values == {}
    assert lab.plugin._controllers == {}
    assert all(gate._entries[4] == () for gate in lab.gates.values())
    assert all(state.limiters == {} for state in lab.context.states.values())


@pytest.mark.seed("S5-050")
def test_what_was_told_while_it_was_enabled_is_told_no_longer() -> None:
    context = FakeContext(ManualClock())
    context.values[ENABLED] = False
    context.facts[KEY] = '{"throttled": 3}'
    assert AdaptiveThrottling().sluicegate_tasks(context) == []
    assert context.facts[KEY] == "null"


@pytest.mark.seed("S5-060", "S5-061", "S5-062", "S5-063", "S5-064", "S5-065", "S5-085")
def test_the_six_of_a_broker() -> None:
    lab = Lab(settings={MEMORY_LOW: 0.70, MEMORY_HIGH: 0.85})
    assert lab.metrics.values.keys() >= BROKER
    assert lab.metrics["pulsar_broker_adaptive_throttle_activation_count_total"] == 0
    assert lab.metrics["pulsar_broker_adaptive_throttle_controller_evaluation_failure_count_total"] == 0
    lab.learn()
    lab.memory = 0.775
    lab.cycle()
    values = {name.removeprefix("pulsar_broker_adaptive_throttle_"): lab.metrics[name] for name in BROKER}
    assert values == {
        "memory_pressure": pytest.approx(0.5),
        "active_topic_count": 1,
        "activation_count_total": 1,
        "controller_last_evaluation_timestamp": lab.context.wall_ms(),
        "controller_evaluation_duration": 0,
        "controller_evaluation_failure_count_total": 0,
    }


@pytest.mark.seed("S5-010", "S5-066", "S5-085")
def test_the_six_of_a_topic_come_and_go_with_their_switch() -> None:
    lab = Lab(topics=2)
    lab.learn(1000)
    assert not TOPIC & lab.metrics.values.keys()
    lab.set(per_topic_metrics_enabled=True)
    lab.press(0.825)
    lab.cycle(times=4)
    assert lab.metrics.values.keys() >= TOPIC
    assert of_topic(lab) == {
        "active": 1,
        "natural_publish_rate": 1000,
        "effective_publish_rate": 550,
        "memory_pressure": 0,
        "backlog_pressure": pytest.approx(0.5),
        "rate_reduction_ratio": 0.55,
    }
    assert of_topic(lab, "t1") == {
        "active": 0,
        "natural_publish_rate": pytest.approx(1000 * 0.95**4),
        "effective_publish_rate": pytest.approx(1000 * 0.95**4),
        "memory_pressure": 0,
        "backlog_pressure": 0,
        "rate_reduction_ratio": 1,
    }
    lab.set(per_topic_metrics_enabled=False)
    lab.cycle()
    assert all(lab.metrics.values[name] == {} for name in TOPIC)
    lab.set(per_topic_metrics_enabled=True)
    lab.cycle()
    assert of_topic(lab)["active"] == 1


@pytest.mark.seed("S5-066")
def test_topics_without_a_natural_rate_and_topics_that_are_gone() -> None:
    lab = Lab(topics=2, settings={"adaptive_publish_throttling_per_topic_metrics_enabled": True})
    lab.cycle()
    assert of_topic(lab)["rate_reduction_ratio"] == 1
    del lab.context.states["t1"]
    lab.cycle(times=2)
    assert lab.metrics.values["pulsar_broker_topic_adaptive_throttle_active"].keys() == {("t0",)}


@pytest.mark.seed("S5-066")
def test_series_of_topics_are_bounded() -> None:
    lab = Lab(topics=1010, settings={"adaptive_publish_throttling_per_topic_metrics_enabled": True})
    lab.cycle()
    assert len(lab.metrics.values["pulsar_broker_topic_adaptive_throttle_active"]) == 1000


@pytest.mark.seed("S5-055", "S5-060")
def test_sources_have_metrics_of_their_state() -> None:
    lab = Lab()
    lab.memory = None
    lab.backlogs = {"t0": Backlog(1, 10)}
    lab.cycle(times=2)
    assert lab.metrics.values["sluicegate_pressure_source_known"] == {("memory",): 0, ("backlog",): 1}
    assert lab.metrics.values["sluicegate_pressure_source_failures"] == {("memory",): 2, ("backlog",): 0}
