"""Families of metrics: their labels are separated by blanks, and the last is always `broker`."""

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily


def counter(name: str, text: str, labels: str = "") -> CounterMetricFamily:
    """A counter's family; the exposition adds `_total` to its name."""
    return CounterMetricFamily(name, text, labels=[*labels.split(), "broker"])


def gauge(name: str, text: str, labels: str = "") -> GaugeMetricFamily:
    """A gauge's family."""
    return GaugeMetricFamily(name, text, labels=[*labels.split(), "broker"])


def histogram(name: str, text: str, labels: str = "") -> HistogramMetricFamily:
    """A histogram's family."""
    return HistogramMetricFamily(name, text, labels=[*labels.split(), "broker"])
