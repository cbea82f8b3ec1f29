"""Metrics that plugins ask for: kept by the worker, published with its snapshot."""

import re
from collections.abc import Sequence
from threading import Lock
from typing import Any, Literal

LABEL_SETS = 1_000
"""Sets of labels of one metric; values of more are those of `other`."""
OTHER = "other"
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"(?!__|broker$)[a-zA-Z_][a-zA-Z0-9_]*")


class PluginMetric:
    """One metric; a `hooks.Gauge` or a `hooks.Counter`."""

    def __init__(
        self, kind: Literal["gauge", "counter"], name: str, text: str, labels: Sequence[str]
    ) -> None:
        self.kind = kind
        self.name = name
        self.text = text
        self.labels = tuple(labels)
        self._lock = Lock()
        self._values: dict[tuple[str, ...], float] = {}

    def set(self, value: float, *labels: str) -> None:
        """Set the value of a set of labels."""
        with self._lock:
            self._values[self._key(labels)] = value

    def inc(self, amount: float = 1, *labels: str) -> None:
        """Add to the value of a set of labels."""
        with self._lock:
            key = self._key(labels)
            self._values[key] = self._values.get(key, 0.0) + amount

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._values.clear()

    def snapshot(self) -> dict[str, Any]:
        """Kind and values, as JSON."""
        with self._lock:
            values = [[list(labels), value] for labels, value in self._values.items()]
        return {
            "kind": self.kind,
            "name": self.name,
            "help": self.text,
            "labels": list(self.labels),
            "values": values,
        }

    def _key(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        if len(labels) != len(self.labels):
            raise ValueError(
                f"metric {self.name!r} got labels {labels!r}, expected one each for {self.labels!r}"
            )
        if labels in self._values or len(self._values) < LABEL_SETS:
            return labels
        return (OTHER,) * len(labels)


class PluginMetrics:
    """All metrics of the plugins of one worker; a `hooks.Metrics`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._metrics: dict[str, PluginMetric] = {}

    def gauge(self, name: str, help: str, labels: Sequence[str] = ()) -> PluginMetric:  # noqa: A002
        """A gauge; see `hooks.Metrics.gauge`."""
        return self._metric("gauge", name, help, labels)

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> PluginMetric:  # noqa: A002
        """A counter; see `hooks.Metrics.counter`."""
        return self._metric("counter", name.removesuffix("_total"), help, labels)

    def snapshot(self) -> list[dict[str, Any]]:
        """All metrics, as JSON."""
        # A copy: tasks make metrics in a thread of their own.
        return [metric.snapshot() for metric in tuple(self._metrics.values())]

    def _metric(
        self, kind: Literal["gauge", "counter"], name: str, text: str, labels: Sequence[str]
    ) -> PluginMetric:
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r} is no name of a metric, expected letters, digits and underscores")
        for label in labels:
            if _LABEL.fullmatch(label) is None:
                raise ValueError(f"{label!r} is no label of a plugin's metric, expected another name")
        with self._lock:
            known = self._metrics.get(name)
            if known is None:
                known = self._metrics[name] = PluginMetric(kind, name, text, labels)
            elif (known.kind, known.labels) != (kind, tuple(labels)):
                raise ValueError(
                    f"metric {name!r} is a {known.kind} with labels {known.labels!r} already, "
                    "expected another name"
                )
            return known
