"""Figures of the gateway's processes from the system, and which build they run."""

import os
import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector

from sluicegate import __version__

_COUNTERS = {"process_cpu_seconds": "User and system CPU time, in seconds."}
_GAUGES = {
    "process_resident_memory_bytes": "Resident memory.",
    "process_virtual_memory_bytes": "Virtual memory.",
    "process_open_fds": "Open file descriptors.",
    "process_max_fds": "File descriptors that may be open.",
    "process_start_time_seconds": "When the process was started, in seconds since 1970.",
}


def build_info() -> Metric:
    """Version of the gateway and of its Python, as labels of a constant 1."""
    family = GaugeMetricFamily(
        "sluicegate_build_info",
        "Version of the gateway and of the Python that runs it; always 1.",
        labels=["version", "python_version", "python_implementation"],
    )
    family.add_metric([__version__, platform.python_version(), platform.python_implementation()], 1)
    return family


def process_metrics(workers: Mapping[str, Mapping[str, Any]]) -> Iterable[Metric]:
    """Metrics of the supervisor (this process) and of each running worker.

    Read from `/proc` on request, in this process, without a worker's event loop.
    Where there is no `/proc`, the families are empty.

    :param workers: their `Supervisor.status`, by name.
    """
    labels = ["process", "broker", "worker"]
    families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {
        **{name: CounterMetricFamily(name, text, labels=labels) for name, text in _COUNTERS.items()},
        **{name: GaugeMetricFamily(name, text, labels=labels) for name, text in _GAUGES.items()},
    }
    _add(families, os.getpid(), ["supervisor", ""])
    for name, worker in workers.items():
        if (pid := worker.get("pid")) is not None:
            _add(families, pid, ["worker", *worker_labels(name, worker)])
    return families.values()


def worker_labels(name: str, worker: Mapping[str, Any]) -> list[str]:
    """The broker of a worker, and its index if the broker has several.

    :param name: of the worker.
    :param worker: its `Supervisor.status`.
    """
    return [worker["broker"], str(worker["worker"])] if "worker" in worker else [name]


def _add(
    families: Mapping[str, CounterMetricFamily | GaugeMetricFamily], pid: int, labels: list[str]
) -> None:
    # Without a registry, which would refuse the same names for a second process.
    collector = ProcessCollector(pid=lambda: pid, registry=None)
    with suppress(ValueError):  # the number of descriptors may be "unlimited"
        for metric in collector.collect():
            if (family := families.get(metric.name)) is not None:
                for sample in metric.samples:
                    family.add_metric(labels, sample.value)
