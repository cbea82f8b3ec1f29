"""/metrics with 20,000 topics that use every policy: what samples cost a worker, a scrape the supervisor."""

import time
from collections.abc import Coroutine
from typing import Any

import orjson

from benchmarks.harness.arms import Bench
from benchmarks.harness.names import ENGINE
from benchmarks.harness.scenario import Scenario
from sluicegate.metrics.exposition import GatewayCollector
from sluicegate.metrics.exposition_text import text_of
from sluicegate.model import (
    Level,
    Operation,
    OperationKind,
    PolicyLayer,
    PolicySet,
    Setting,
    Source,
    TopicName,
)
from sluicegate.runtime.broker_use import BrokerUse
from sluicegate.runtime.client_samples import ClientSamples
from sluicegate.runtime.facts import Facts
from sluicegate.runtime.held_samples import held_now
from sluicegate.runtime.host import EngineHost
from sluicegate.runtime.plugins import load_plugins
from sluicegate.runtime.samples import TopicSamples
from sluicegate.testing import NullSink

_TOPICS, _QUICK_TOPICS = 20_000, 1_000
_CLIENTS = 5_000
_TICKS = 8
_SECOND_NS = 1_000_000_000
_POLICIES = {
    "max_message_size": 4 * 2**20,
    "max_publish_rate": 1_000_000,
    "max_publish_rate_bytes": 2_000_000_000,
    "max_dispatch_rate": 1_000_000,
    "max_dispatch_rate_bytes": 2_000_000_000,
    "max_subscription_dispatch_rate": 1_000_000,
    "max_subscription_dispatch_rate_bytes": 2_000_000_000,
    "max_producers_per_topic": 1_000,
    "max_subscriptions_per_topic": 1_000,
    "max_consumers_per_topic": 1_000,
    "max_consumers_per_subscription": 1_000,
    "principal_publish_quota": 1_000_000,
    "publish_quota": 2_000_000_000,
}


def _scrape(_bench: Bench, _name: str, quick: bool) -> dict[str, float]:
    count = _QUICK_TOPICS if quick else _TOPICS
    host = _host()
    now_ns = _SECOND_NS
    for number in range(count):
        _use(host, f"team-{number % 100}.topic-{number}", number, now_ns)
    limits = host.limits()
    samples, clients, use = (
        TopicSamples(limits=limits),
        ClientSamples(host.gates.broker, limits),
        BrokerUse(limits),
    )
    longest_ns = total_ns = 0
    for _ in range(_TICKS):
        now_ns += _SECOND_NS
        for number in range(0, count, 7):
            _publish(host, f"team-{number % 100}.topic-{number}", number, now_ns)
        for work in (samples.refresh(host.gates, now_ns), clients.refresh(now_ns)):
            slice_ns, all_ns = _run(work)
            longest_ns = max(longest_ns, slice_ns)
            total_ns += all_ns
        use.read(now_ns, clients.published)
    snapshot = {
        "broker": "main",
        "topics": samples.latest,
        "use": use.latest,
        "principals": clients.principals,
        "clients": clients.clients,
        "held": held_now(host.gates.broker.held, lambda now_ns: now_ns // 1_000_000),
        **{part: {} for part in ("counters", "gauges", "front", "plugin_faults", "decision_log")},
        "plugin_calls": [],
        "plugin_metrics": [],
        "tls": [],
    }
    collector = GatewayCollector(lambda: [snapshot])
    began = time.process_time_ns()
    text = text_of(collector.collect())
    return {
        "scrape_cpu_ms": (time.process_time_ns() - began) / 1e6,
        "scrape_kib": len(text) / 1024,
        "series": text.count(b"\n") - 2 * text.count(b"# TYPE"),
        "snapshot_kib": len(orjson.dumps(snapshot)) / 1024,
        "sample_cpu_ms": total_ns / _TICKS / 1e6,
        "longest_slice_ms": longest_ns / 1e6,
    }


def _host() -> EngineHost:
    """An engine for Kafka with every policy set at broker level."""
    plugins = load_plugins(())
    entry = {"name": "main", "system": "kafka", "bootstrap": ["127.0.0.1:9092"], "listen": {"port": 9192}}
    settings = {name: Setting(value, Source.FILE, "benchmark") for name, value in _POLICIES.items()}
    return EngineHost(
        plugins.drivers["kafka"].config_model.model_validate(entry),
        plugins,
        PolicySet(1, (PolicyLayer(Level.BROKER, "", settings),)),
        NullSink(),
        apply=lambda call: call(),
        facts=Facts({}, lambda key, value: None),
        name_of=lambda topic: TopicName(topic, topic.partition(".")[0]),
    )


def _use(host: EngineHost, topic: str, number: int, now_ns: int) -> None:
    """Attach a producer and a consumer, publish and deliver a message."""
    gate = host.gates.get(topic, False, now_ns)
    who = (f"principal-{number % 500}", f"client-{number % _CLIENTS}@10.0.0.1:{number}")
    gate.state.learn_subscriptions(["group"])
    for op in (
        Operation(OperationKind.ATTACH_PRODUCER, topic, *who, producer="p"),
        Operation(OperationKind.ATTACH_CONSUMER, topic, *who, subscription="group", consumer="c"),
        Operation(
            OperationKind.DISPATCH, topic, *who, subscription="group", messages=1, bytes=1000, largest=1000
        ),
    ):
        assert gate.decide(op, now_ns) is None
    _publish(host, topic, number, now_ns)


def _publish(host: EngineHost, topic: str, number: int, now_ns: int) -> None:
    who = (f"principal-{number % 500}", f"client-{number % _CLIENTS}@10.0.0.1:{number}")
    op = Operation(OperationKind.PUBLISH, topic, *who, messages=1, bytes=1000, largest=1000)
    assert host.gates.get(topic, False, now_ns).publish(op, now_ns) is None


def _run(work: Coroutine[Any, Any, None]) -> tuple[int, int]:
    """Run a coroutine that only yields; the longest time between two yields and all time, in ns of CPU."""
    longest = total = 0
    while True:
        began = time.process_time_ns()
        try:
            work.send(None)
        except StopIteration:
            return longest, total
        finally:
            took = time.process_time_ns() - began
            longest, total = max(longest, took), total + took


SCENARIOS = (
    Scenario(
        "scrape",
        "/metrics with 20,000 topics that use every policy: samples of a worker, size and time of a scrape",
        (ENGINE,),
        _scrape,
        rounds=3,
        cold_round=False,
    ),
)
