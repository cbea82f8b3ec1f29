"""Metrics of plugins."""

import threading

import pytest

from sluicegate.runtime.plugin_metrics import LABEL_SETS, PluginMetrics


def test_gauges_and_counters_keep_values_by_label() -> None:
    metrics = PluginMetrics()
    metrics.gauge("full", "How full.", ("volume",)).set(0.5, "a")
    metrics.gauge("full", "How full.", ("volume",)).set(0.75, "a")
    metrics.counter("reads_total", "Reads.").inc()
    metrics.counter("reads", "Reads.").inc(2)

    assert metrics.snapshot() == [
        {
            "kind": "gauge",
            "name": "full",
            "help": "How full.",
            "labels": ["volume"],
            "values": [[["a"], 0.75]],
        },
        {"kind": "counter", "name": "reads", "help": "Reads.", "labels": [], "values": [[[], 3.0]]},
    ]
    metrics.gauge("full", "How full.", ("volume",)).clear()
    assert metrics.snapshot()[0]["values"] == []


def test_labels_are_bounded() -> None:
    counter = PluginMetrics().counter("reads", "Reads.", ("topic",))
    for number in range(LABEL_SETS + 50):
        counter.inc(1, f"t{number}")
    counter.inc(1, "t0")

    values = {labels[0]: value for labels, value in counter.snapshot()["values"]}
    assert len(values) == LABEL_SETS + 1
    assert (values["t0"], values["other"]) == (2, 50)


@pytest.mark.parametrize("name", ["", "9lives", "a-b", "a b"])
def test_an_invalid_metric_name_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a metric"):
        PluginMetrics().gauge(name, "")


@pytest.mark.parametrize("label", ["broker", "__name", "a-b", ""])
def test_invalid_and_reserved_labels_are_rejected(label: str) -> None:
    with pytest.raises(ValueError, match="is no label"):
        PluginMetrics().gauge("fine", "", (label,))


def test_a_metric_cannot_be_redefined() -> None:
    metrics = PluginMetrics()
    gauge = metrics.gauge("full", "", ("volume",))

    with pytest.raises(ValueError, match="already"):
        metrics.counter("full", "", ("volume",))
    with pytest.raises(ValueError, match="already"):
        metrics.gauge("full", "")
    with pytest.raises(ValueError, match="expected one each"):
        gauge.set(1.0)


def test_concurrent_updates_are_not_lost() -> None:
    counter = PluginMetrics().counter("reads", "")

    def work() -> None:
        for _ in range(2_000):
            counter.inc()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert counter.snapshot()["values"] == [[[], 8_000.0]]
