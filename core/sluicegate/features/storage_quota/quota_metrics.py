"""The metrics of storage quotas, by name."""

from collections import Counter as Counts
from collections.abc import Mapping, Sequence

from sluicegate.engine.plugin_metrics import Counter, Gauge, Metrics
from sluicegate.features.storage_quota.usage_tracker import UsageTracker, Verdict

_VOLUME = ("broker_id", "volume")
GAUGES = {
    "throttle_factor": "Remaining share of the quota, 0.0 to 1.0.",
    "state": "0 for OPEN, 1 for THROTTLE, 2 for PAUSE.",
    "lack_of_data": "1 while publishing is restricted because data is missing, else 0.",
    "connected": "1 if the last reading of the volumes' usage succeeded, else 0.",
    "active_brokers": "Nodes that are up according to the cluster, or else nodes seen.",
    "unknown_brokers": "Nodes without a fresh state.",
    "active_volumes": "Volumes with a fresh state.",
    "cached_volumes": "Volumes with a cached state, fresh or not.",
    "inverted_volumes": "Volumes whose soft limit is beyond the hard one and has no effect.",
}
VOLUME_GAUGES = {
    "capacity_bytes": "Bytes of a volume.",
    "consumed_bytes": "Bytes in use on a volume.",
    "available_bytes": "Bytes that can still be written to a volume.",
    "hard_limit_bytes": "Bytes in use at which this volume pauses publishing.",
    "soft_limit_bytes": "Bytes in use above which this volume throttles publishing.",
}
COUNTERS = {
    "fallback_applied": "Times that on_unknown was applied because data was missing.",
    "limit_violated": "Volumes found beyond their hard limit, at each reading.",
    "publication_errors": "Snapshots that could not be published.",
    "read_failures": "Readings that failed.",
    "settings_refused": "Times that new limits were refused because they conflict.",
    "snapshots_refused": "Refused states, by reason.",
    "volume_evictions": "Volumes that were evicted.",
}
LABELS = {"snapshots_refused": ("reason",), "volume_evictions": _VOLUME}
"""Labels of counters besides `broker`, the name of the entry, which all metrics have."""
PREFIX = "sluicegate_storage_"


class StorageMetrics:
    """Publishes the metrics of one broker's storage quotas.

    :param metrics: the registry of the broker's context.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._gauges: dict[str, Gauge] = {
            name: metrics.gauge(PREFIX + name, text) for name, text in GAUGES.items()
        }
        self._volumes: dict[str, Gauge] = {
            name: metrics.gauge(PREFIX + name, text, _VOLUME) for name, text in VOLUME_GAUGES.items()
        }
        self._counters: dict[str, Counter] = {
            name: metrics.counter(PREFIX + name, text, LABELS.get(name, ()))
            for name, text in COUNTERS.items()
        }
        self._counted: dict[str, Mapping[tuple[str, ...], int]] = {}
        self._shown: frozenset[tuple[str, str]] = frozenset()

    def count(self, name: str, *labels: str) -> None:
        """Increment a counter."""
        self._counters[name].inc(1, *labels)

    def connected(self, is_connected: bool) -> None:
        """Set whether the last reading succeeded."""
        self._gauges["connected"].set(float(is_connected))

    def show(self, tracker: UsageTracker, verdict: Verdict, active: Sequence[str]) -> None:
        """Publish the current state.

        :param active: nodes that are up, as far as known.
        """
        cached = sum(len(usage.volumes) for usage in tracker.states.values())
        figures = {
            "throttle_factor": verdict.factor,
            "state": verdict.state,
            "lack_of_data": verdict.lack_of_data,
            "active_brokers": len(active),
            "unknown_brokers": len(verdict.unknown),
            "active_volumes": len(verdict.volumes),
            "cached_volumes": cached,
            "inverted_volumes": sum(each.limits.is_inverted(each.volume) for each in verdict.volumes),
        }
        for name, value in figures.items():
            self._gauges[name].set(float(value))
        self._show_volumes(verdict)
        self._add("snapshots_refused", Counts({(reason,): n for reason, n in tracker.refused.items()}))
        self._add("volume_evictions", tracker.evictions)

    def _show_volumes(self, verdict: Verdict) -> None:
        shown = frozenset((each.broker, each.volume.name) for each in verdict.volumes)
        if not shown >= self._shown:
            for gauge in self._volumes.values():
                gauge.clear()
        self._shown = shown
        for each in verdict.volumes:
            volume = each.volume
            soft = each.limits.soft_at(volume)
            figures = {
                "capacity_bytes": volume.capacity,
                "consumed_bytes": volume.consumed,
                "available_bytes": volume.free,
                "hard_limit_bytes": each.hard_at if each.limits else None,
                "soft_limit_bytes": soft,
            }
            for name, value in figures.items():
                if value is not None:
                    self._volumes[name].set(float(value), each.broker, volume.name)

    def _add(self, name: str, counts: Mapping[tuple[str, ...], int]) -> None:
        before = self._counted.get(name, {})
        for labels, count in counts.items():
            if count > before.get(labels, 0):
                self._counters[name].inc(count - before.get(labels, 0), *labels)
        self._counted[name] = dict(counts)
