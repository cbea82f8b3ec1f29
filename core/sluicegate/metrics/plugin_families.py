"""Metrics of plugins, out of the workers' snapshots: those that they keep, and how long their calls take."""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

Family: TypeAlias = CounterMetricFamily | GaugeMetricFamily


def plugin_families(snapshots: Sequence[Mapping[str, Any]], taken: Container[str]) -> Iterable[Family]:
    """The metrics of all workers, merged by name, with a label `broker` before their own.

    :param snapshots: as `Worker.snapshot` makes them.
    :param taken: names that the gateway's own metrics have; a plugin's of such a name is left out, as is one
        that is of another kind than that of an earlier worker.
    """
    families: dict[str, tuple[Mapping[str, Any], Family]] = {}
    for snapshot in snapshots:
        for metric in snapshot["plugin_metrics"]:
            name = metric["name"]
            if name in taken:
                continue
            first, family = families.setdefault(name, (metric, _family(metric)))
            if (first["kind"], first["labels"]) != (metric["kind"], metric["labels"]):
                continue
            for labels, value in metric["values"]:
                family.add_metric([snapshot["broker"], *labels], value)
    return [family for _, family in families.values()]


def call_family(snapshots: Sequence[Mapping[str, Any]]) -> SummaryMetricFamily:
    """How long calls of plugins take; of checks a sample."""
    family = SummaryMetricFamily(
        "sluicegate_plugin_call_seconds",
        "Time of a plugin's calls: of each hook, and of one call in 64 of each check.",
        labels=["plugin", "call", "broker"],
    )
    for snapshot in snapshots:
        for each in snapshot["plugin_calls"]:
            labels = [each["plugin"], each["call"], snapshot["broker"]]
            family.add_metric(labels, each["sampled"], each["sampled_ns"] / 1e9)
    return family


def _family(metric: Mapping[str, Any]) -> Family:
    kind = CounterMetricFamily if metric["kind"] == "counter" else GaugeMetricFamily
    return kind(metric["name"], metric["help"], labels=["broker", *metric["labels"]])
