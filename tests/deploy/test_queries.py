"""Rules and dashboards use metrics that a gateway has, and PromQL that Prometheus reads."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.metrics_core import Metric
from tests.deploy.promtool import said
from tests.deploy.queries import expressions, filled, series
from tests.metrics.status import STATUS
from tests.runtime.sampled import Sampled

from sluicegate.features.adaptive.controller_metrics import ControllerMetrics
from sluicegate.metrics.exposition import GatewayCollector
from sluicegate.runtime.plugin_metrics import PluginMetrics
from sluicegate.runtime.slow_calls import COUNTED, LONGEST

FURTHER = {
    "up": frozenset({"job", "instance"}),  # of Prometheus itself
    **dict.fromkeys((f"{COUNTED}_total", LONGEST), frozenset({"broker", "plugin", "policy"})),
}
_ENDINGS = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}


def plugin_metrics() -> list[object]:
    """What factors and adaptive throttling publish."""
    broker = Sampled({})
    metrics: PluginMetrics = broker.host.context.metrics
    broker.host.dynamics.publish(broker.now_ns)
    ControllerMetrics(metrics)
    return list(metrics.snapshot())


def served() -> Iterator[tuple[str, frozenset[str]]]:
    """Every metric as it is written, and its labels."""
    snapshot = {
        "broker": "b",
        "topics": {},
        "use": {},
        "principals": {},
        "clients": {},
        "counters": {},
        "gauges": {},
        "front": {},
        "plugin_faults": {},
        "plugin_calls": [],
        "decision_log": {},
        "rollouts": [],
        "plugin_metrics": plugin_metrics(),
        "tls": [],
    }
    metrics: Iterable[Metric] = GatewayCollector(lambda: [snapshot], lambda: STATUS).collect()
    for metric in metrics:
        labels = frozenset(getattr(metric, "_labelnames", ()))
        for ending in _ENDINGS.get(metric.type, ("",)):
            yield metric.name + ending, labels | ({"le"} if ending == "_bucket" else set())


def test_every_metric_and_label_is_one_that_a_gateway_serves() -> None:
    known = {**dict(served()), **FURTHER}
    found = {each for expression in expressions() for each in series(expression)}
    assert len(found) > 50
    assert {(name, labels) for name, labels in found if name not in known} == set()
    assert {(name, labels - known[name]) for name, labels in found if labels - known[name]} == set()


def test_promtool_reads_every_expression(tmp_path: Path) -> None:
    rules = [{"record": f"r{number}", "expr": each} for number, each in enumerate(expressions())]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    assert said("check", "rules", file) == ""
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": [{"record": "r", "expr": "sum("}]}]}))
    assert said("check", "rules", file)


@pytest.mark.parametrize(
    ("expression", "metrics"),
    [
        ('topk(10, a{x=~"b|c",y!="d"})', {("a", frozenset({"x", "y"}))}),
        (
            "sum by (le, z) (rate(a_bucket[5m] offset 10m)) / ignoring(q) b unless c > 3 * time()",
            {("a_bucket", frozenset()), ("b", frozenset()), ("c", frozenset())},
        ),
        (filled('rate(a{b="$topic"}[$__rate_interval])'), {("a", frozenset({"b"}))}),
    ],
)
def test_the_metrics_of_an_expression(expression: str, metrics: set[tuple[str, frozenset[str]]]) -> None:
    assert set(series(expression)) == metrics
