import asyncio
import platform
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from tests.runtime.sampled import WAITING, Sampled

from sluicegate import __version__
from sluicegate.engine.gates import GateCache
from sluicegate.engine.state import TopicState
from sluicegate.metrics.exposition import GatewayCollector
from sluicegate.metrics.exposition_text import text_of
from sluicegate.model import Operation, OperationKind, TopicName
from sluicegate.runtime.samples import TopicSamples
from sluicegate.testing import build_gate

STATUS: dict[str, Any] = {
    "workers": {"b1": {"up": True, "restarts": 2, "pid": None, "log_lines_left_out": 6}},
    "config_last_reload_successful": False,
    "config_reloads_failed": 4,
    "config_version": 9,
    "log_lines_left_out": 5,
    "store_facts_waiting": 7,
    "store_facts_lost": 8,
    "store_facts_conflicting": 9,
    "store_age_seconds": 12.5,
    "store_copy_in_use": True,
    "rollout_fallbacks": 2,
}


def snapshot(*states: TopicState, **parts: Any) -> dict[str, Any]:
    gates = GateCache(lambda topic, exempt, now_ns: NotImplemented)
    gates.states.update({state.topic.full: state for state in states})
    samples = TopicSamples()
    asyncio.run(samples.refresh(gates, 0))
    return {
        "broker": "b1",
        "system": "kafka",
        "counters": {},
        "gauges": {},
        "front": {},
        "plugin_faults": {},
        "plugin_calls": [],
        "decision_log": {},
        "topics": samples.latest,
        "use": {},
        "principals": {},
        "clients": {},
        "rollouts": [],
        "plugin_metrics": [],
        "tls": [],
        **parts,
    }


class Families(Collector):
    """Families that were made before."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def by_the_library(families: Iterable[Metric]) -> bytes:
    registry = CollectorRegistry()
    registry.register(Families(families))
    return generate_latest(registry)


def exposed(*snapshots: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, float]:
    """Values by name and labels as they are written, without the label `broker`."""
    collector = GatewayCollector(lambda: snapshots, (lambda: status) if status is not None else None)
    families = list(collector.collect())
    text = text_of(families)
    assert text == by_the_library(families)
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()) if k != "broker")
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_odd_values_are_written_as_the_library_writes_them() -> None:
    counter = CounterMetricFamily("a-b.c", 'one\\two\n"three"', labels=["x", "b"])
    counter.add_metric(['"\\\n\u2028é{}', ""], 1e22)
    counter.add_metric(["", "y"], 0.1)
    histogram = HistogramMetricFamily("h", "text", labels=["z"])
    histogram.add_metric(["1"], [("0.5", 1.0), ("+Inf", 2.0)], 0.75)
    values = GaugeMetricFamily("g", "", labels=["n"])
    for value in (float("inf"), float("-inf"), float("nan"), -0.0, True, 12345678901, 1e-7):
        values.add_metric([str(value)], value)
    families = [counter, histogram, values, GaugeMetricFamily("alone", "text", value=3)]
    assert text_of(families) == by_the_library(families)


@pytest.fixture
def state() -> TopicState:
    return TopicState(TopicName("orders", "ns"), 0)


@pytest.mark.seed("S1-110")
def test_violations_by_policy_topic_and_reason(state: TopicState) -> None:
    state.violations.update(
        {
            ("max_message_size", "reject", "invalid"): 2,
            ("max_message_size", "drop", "invalid"): 1,
            ("max_message_size", "would_reject", "invalid"): 4,
            ("fixed_delivery_delay", "rewrite", "invalid"): 9,
        }
    )
    found = exposed(snapshot(state))
    name = "policy_violation_total{policy_type=max_message_size,topic_name=orders,violation_reason=%s}"
    assert found[name % "invalid"] == 3
    assert found[name % "would_reject"] == 4
    assert not any("fixed_delivery_delay" in key for key in found)


@pytest.mark.seed("S2-015", "S2-016")
def test_what_broker_rooms_count_has_their_brokers_names(state: TopicState) -> None:
    state.count("pulsar_broker_topic_messages_delayed_rejected", 2)
    state.count("pulsar_broker_topic_messages_delayed_rejected", 1)
    state.count("pulsar_broker_topic_messages_fixed_delay_overridden", 4)
    found = exposed(snapshot(state))
    name = "pulsar_broker_topic_messages_%s_total{cluster=b1,namespace=ns,topic=orders}"
    assert found[name % "delayed_rejected"] == 3
    assert found[name % "fixed_delay_overridden"] == 4


@pytest.mark.seed("S1-111", "S1-074", "S1-117")
def test_throttles_by_rate_type(state: TopicState) -> None:
    for policy in ("max_publish_rate", "max_publish_rate_bytes", "max_dispatch_rate"):
        state.violations[policy, "delay", "limit_reached"] = 2
    state.violations["max_publish_rate", "reject", "limit_reached"] = 1
    state.violations["max_subscription_dispatch_rate_bytes", "delay", "limit_reached"] = 7
    state.violations["max_dispatch_rate", "would_delay", "limit_reached"] = 5
    found = exposed(snapshot(state))
    assert found["rate_limit_throttle_total{rate_type=publish,topic_name=orders}"] == 5
    assert found["rate_limit_throttle_total{rate_type=dispatch,topic_name=orders}"] == 2
    assert found["rate_limit_throttle_total{rate_type=subscription,topic_name=orders}"] == 7


@pytest.mark.seed("S1-112", "S1-113")
def test_producers_and_consumers(state: TopicState) -> None:
    state.producers.attach("p1", "c")
    state.subscription("s").consumers.attach("c1", "c")
    state.subscription("s").consumers.attach("c2", "c")
    found = exposed(snapshot(state))
    assert found["producer_count{topic_name=orders}"] == 1
    assert found["consumer_count{subscription_name=s,topic_name=orders}"] == 2


@pytest.mark.seed("S1-114")
def test_message_sizes(state: TopicState) -> None:
    gate = build_gate({"max_message_size": 0}, now_ns=0, state=state)
    for size in (100, 255, 256, 70_000_000):
        gate.publish(Operation(OperationKind.PUBLISH, "orders", messages=1, bytes=size + 73, largest=size), 0)
    found = exposed(snapshot(state))
    assert found["message_size_bytes_bucket{le=63.0,topic_name=orders}"] == 0
    assert found["message_size_bytes_bucket{le=255.0,topic_name=orders}"] == 2
    assert found["message_size_bytes_bucket{le=1023.0,topic_name=orders}"] == 3
    assert found["message_size_bytes_bucket{le=67108863.0,topic_name=orders}"] == 3
    assert found["message_size_bytes_bucket{le=+Inf,topic_name=orders}"] == 4
    assert found["message_size_bytes_count{topic_name=orders}"] == 4
    assert found["message_size_bytes_sum{topic_name=orders}"] == 70_000_611
    assert found["sluicegate_batch_size_bytes_count{topic_name=orders}"] == 0


def test_messages_in_batches_are_counted_apart_as_their_sizes_are_not_known(state: TopicState) -> None:
    gate = build_gate({"max_message_size": 0}, now_ns=0, state=state)
    for messages, nbytes in ((1, 90), (10, 1_000), (500, 20_000)):
        op = Operation(OperationKind.PUBLISH, "orders", messages=messages, bytes=nbytes, largest=nbytes)
        gate.publish(op, 0)
    found = exposed(snapshot(state))
    assert found["message_size_bytes_count{topic_name=orders}"] == 1
    assert found["sluicegate_batch_size_bytes_count{topic_name=orders}"] == 2
    assert found["sluicegate_batch_size_bytes_sum{topic_name=orders}"] == 21_000
    assert found["sluicegate_batch_size_bytes_bucket{le=1023.0,topic_name=orders}"] == 1
    assert found["sluicegate_batched_messages_total{topic_name=orders}"] == 510
    assert found["sluicegate_messages_total{direction=publish,topic_name=orders}"] == 511


def test_hold_times_by_topic_and_operation(state: TopicState) -> None:
    for held_ms in (1, 3, 700, 60_000):
        state.holds[OperationKind.PUBLISH].add(held_ms * 1_000_000)
    state.holds[OperationKind.DISPATCH].add(2_000_000_000)
    found = exposed(snapshot(state))
    name = "sluicegate_hold_duration_seconds_%soperation=publish,topic_name=orders}"
    assert found[name % "bucket{le=0.001,"] == 1
    assert found[name % "bucket{le=0.005,"] == 2
    assert found[name % "bucket{le=1.0,"] == 3
    assert found[name % "bucket{le=30.0,"] == 3
    assert found[name % "count{"] == 4
    assert found[name % "sum{"] == pytest.approx(60.704)
    assert found["sluicegate_hold_duration_seconds_count{operation=dispatch,topic_name=orders}"] == 1
    assert not any("attach" in key for key in found if "hold_duration" in key)


def of_engine(broker: Sampled) -> dict[str, Any]:
    """The snapshot of a broker with the parts that are sampled of its engine."""
    parts = {
        "topics": broker.samples.latest,
        "use": broker.use.latest,
        "principals": broker.clients.principals,
        "clients": broker.clients.clients,
    }
    return snapshot(**parts)


@pytest.mark.seed("S1-115")
def test_utilization_in_percent_over_one_and_ten_seconds() -> None:
    broker = Sampled({"max_publish_rate": 1000})
    broker.tick(11, lambda: broker.publish(800))
    broker.tick()
    found = exposed(of_engine(broker))
    name = "rate_limiter_utilization{rate_type=publish,topic_name=t,window=%s}"
    assert (found[name % "1s"], found[name % "10s"]) == (0, 72)


def test_limits_of_topics_and_of_the_broker_with_what_is_used() -> None:
    broker = Sampled({"max_publish_rate": 1000, "publish_quota": 5000, "max_delivery_delay": 1500})
    broker.set({"publish_quota": 5000}, {"max_publish_rate": 2000, "max_producers_per_topic": 4})
    broker.decide(Operation(OperationKind.ATTACH_PRODUCER, "t", producer="p1"))
    broker.tick(11, lambda: broker.publish(800))
    found = exposed(of_engine(broker))
    assert {name: value for name, value in found.items() if name.startswith("sluicegate_limit")} == {
        "sluicegate_limit{level=default,policy=max_message_size,topic=}": 10 * 2**20,
        "sluicegate_limit{level=broker,policy=publish_quota,topic=}": 5000,
        "sluicegate_limit{level=topic,policy=max_publish_rate,topic=t}": 2000,
        "sluicegate_limit{level=topic,policy=max_producers_per_topic,topic=t}": 4,
        "sluicegate_limit_used{policy=publish_quota,topic=}": 800,
        "sluicegate_limit_used{policy=max_publish_rate,topic=t}": 800,
        "sluicegate_limit_used{policy=max_producers_per_topic,topic=t}": 1,
    }
    assert found["sluicegate_held{topic=t}"] == 0


def test_principals_and_clients() -> None:
    broker = Sampled({"principal_publish_quota": 100, **WAITING})
    broker.tick(11, lambda: broker.publish(50, principal="ann", client="app@10.0.0.1:7"))
    broker.publish(200, principal="ann", client="app@10.0.0.1:7")
    broker.publish(1, principal="ann", client="app@10.0.0.1:8")
    broker.tick()
    found = exposed(of_engine(broker))
    for who in ("principal=ann", "client=app"):
        kind = who.partition("=")[0]
        directed = ",".join(sorted((who, "direction=publish")))
        assert found[f"sluicegate_{kind}_messages_total{{{directed}}}"] == 750
        assert found[f"sluicegate_{kind}_message_bytes_total{{{directed}}}"] == 7500
        assert found[f"sluicegate_{kind}_refusals_total{{{who}}}"] == 0
        assert found[f"sluicegate_{kind}_delays_total{{{who}}}"] == 1
        assert found[f"sluicegate_{kind}_held{{{who}}}"] == 1
    quota = "policy=principal_publish_quota,principal=ann"
    assert found[f"sluicegate_principal_limit{{{quota}}}"] == 100
    assert found[f"sluicegate_principal_limit_used{{{quota}}}"] == 65
    assert found["sluicegate_held{topic=t}"] == 1


def test_counters_of_worker_front_plugins_and_log() -> None:
    found = exposed(
        snapshot(
            counters={"connections_accepted": 3, "malformed_request": 2},
            gauges={"connections": 1},
            front={"produce_hold_timed_out": 5},
            plugin_faults={"mine": 6},
            plugin_calls=[
                {
                    "plugin": "mine",
                    "call": "max_batch",
                    "sampled": 4,
                    "sampled_ns": 6_000,
                    "longest_ns": 9_300,
                }
            ],
            decision_log={"dropped": 7},
        )
    )
    assert found["sluicegate_connections_accepted_total{}"] == 3
    assert found["sluicegate_session_closes_total{reason=malformed_request}"] == 2
    assert found["sluicegate_connections{}"] == 1
    assert found["sluicegate_broker_events_total{event=produce_hold_timed_out}"] == 5
    assert found["sluicegate_plugin_faults_total{plugin=mine}"] == 6
    assert found["sluicegate_plugin_call_seconds_count{call=max_batch,plugin=mine}"] == 4
    assert found["sluicegate_plugin_call_seconds_sum{call=max_batch,plugin=mine}"] == 6e-6
    assert found["sluicegate_decision_log_dropped_total{}"] == 7


def test_state_of_the_supervisor() -> None:
    found = exposed(status=STATUS)
    assert found["sluicegate_worker_up{}"] == 1
    assert found["sluicegate_worker_restarts_total{}"] == 2
    assert found["sluicegate_config_last_reload_successful{}"] == 0
    assert found["sluicegate_config_reloads_failed_total{}"] == 4
    assert found["sluicegate_config_version{}"] == 9
    assert found["sluicegate_log_lines_left_out_total{process=supervisor}"] == 5
    assert found["sluicegate_log_lines_left_out_total{process=worker}"] == 6
    assert (found["sluicegate_store_facts_waiting{}"], found["sluicegate_store_facts_lost_total{}"]) == (7, 8)
    assert found["sluicegate_store_facts_conflicting_total{}"] == 9
    assert (found["sluicegate_store_age_seconds{}"], found["sluicegate_store_copy_in_use{}"]) == (12.5, 1)


def test_the_build_is_a_metric() -> None:
    [name] = [name for name in exposed() if name.startswith("sluicegate_build_info")]
    assert f"version={__version__}" in name
    assert f"python_version={platform.python_version()}" in name


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_each_process_has_metrics_of_cpu_memory_descriptors_and_start() -> None:
    waits = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()  # until it is loaded, it has no memory
        worker = {**STATUS["workers"]["b1"], "pid": child.pid}
        found = exposed(status={**STATUS, "workers": {"b1": worker}})
        child.communicate(b"\n")
    for process in ("supervisor", "worker"):
        assert found[f"process_resident_memory_bytes{{process={process}}}"] > 0
        assert found[f"process_virtual_memory_bytes{{process={process}}}"] > 0
        assert found[f"process_cpu_seconds_total{{process={process}}}"] >= 0
        assert found[f"process_open_fds{{process={process}}}"] > 0
        assert found[f"process_max_fds{{process={process}}}"] > 0
        assert found[f"process_start_time_seconds{{process={process}}}"] > 1_000_000_000


def test_a_process_that_has_ended_has_no_metrics() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    worker = {**STATUS["workers"]["b1"], "pid": child.pid}
    found = exposed(status={**STATUS, "workers": {"b1": worker}})
    assert not any("process=worker" in name for name in found if name.startswith("process_"))


def plugin_metric(name: str, values: dict[tuple[str, ...], float], kind: str = "gauge") -> dict[str, Any]:
    labels = ["volume"][: len(next(iter(values)))]
    return {
        "kind": kind,
        "name": name,
        "help": "Said by a plugin.",
        "labels": labels,
        "values": [[list(key), value] for key, value in values.items()],
    }


def test_metrics_of_plugins_are_those_of_all_workers_with_the_broker_as_a_label() -> None:
    found = exposed(
        snapshot(plugin_metrics=[plugin_metric("volume_full", {("a",): 0.5, ("b",): 1.0})]),
        snapshot(
            broker="b2",
            plugin_metrics=[
                plugin_metric("volume_full", {("c",): 0.25}),
                plugin_metric("volume_reads", {(): 3}, "counter"),
            ],
        ),
    )

    assert {name: value for name, value in found.items() if name.startswith("volume")} == {
        "volume_full{volume=a}": 0.5,
        "volume_full{volume=b}": 1.0,
        "volume_full{volume=c}": 0.25,
        "volume_reads_total{}": 3,
    }


def test_a_plugin_cannot_take_a_name_that_is_taken() -> None:
    found = exposed(
        snapshot(
            gauges={"connections": 7}, plugin_metrics=[plugin_metric("sluicegate_connections", {(): 1.0})]
        ),
        snapshot(broker="b2", plugin_metrics=[plugin_metric("mine", {(): 1.0})]),
        snapshot(broker="b3", plugin_metrics=[plugin_metric("mine", {("x",): 2.0})]),
    )

    assert 1.0 not in [value for name, value in found.items() if "sluicegate_connections{" in name]
    assert [name for name in found if name.startswith("mine")] == ["mine{}"]


def test_operations_of_policies_that_are_rolled_out() -> None:
    counts = {"asked": 100, "would": 3, "did": 2}
    rule = {
        "policy": "max_publish_rate",
        "level": "topic",
        "name": "orders.*",
        "broker": "",
        "mode": "canary 10%",
    }
    series = exposed({**snapshot(), "rollouts": [{**rule, **counts}]})
    found = {name: value for name, value in series.items() if "rollout_operations_total" in name}
    assert len(found) == 3
    for outcome, count in (("asked", 100), ("would_refuse", 3), ("refused", 2)):
        assert [value for name, value in found.items() if f"outcome={outcome}," in name] == [count]
