"""Prometheus metrics out of the workers' last snapshots."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sluicegate.engine.state import COUNTERS
from sluicegate.metrics.budget_families import budget_families
from sluicegate.metrics.certificates import certificate_families
from sluicegate.metrics.client_families import client_families
from sluicegate.metrics.families import counter, gauge
from sluicegate.metrics.histograms import hold_histogram, size_histograms
from sluicegate.metrics.limit_families import limit_families
from sluicegate.metrics.plugin_families import Family, call_family, plugin_families
from sluicegate.metrics.processes import build_info, process_metrics, worker_labels
from sluicegate.metrics.rollouts import rollout_families
from sluicegate.model import ConnectionClose, ConnectionEvent
from sluicegate.runtime.use import RATE_TYPES

Snapshot = Mapping[str, Any]
"""Of a worker, as `Worker.snapshot` makes it."""
Status = Mapping[str, Any]
"""Of the supervisor, as `Supervisor.status` makes it."""
_APPLIED = frozenset({"reject", "drop"})

EVENTS = {str(each): each.meaning for each in (*ConnectionEvent, *ConnectionClose)}
"""Counters of every worker; other names are reasons of broker plugins for closing a connection."""
GAUGES = {
    "broker_up": "1 if the broker answers at one of its addresses.",
    "connections": "Client connections.",
    "buffered_bytes": "Bytes kept for all clients at the last sweep.",
    "held_bytes": "Bytes of held requests and responses, and of incomplete frames.",
    "buffer_budget_bytes": "What buffer_budget is now: half of it while the worker shrinks.",
    "overload_level": "0 is normal, 1 takes no new clients, 2 shrinks, 3 closes those that keep most.",
    "overload_memory_bytes": "Resident memory of the worker.",
    "overload_memory_limit_bytes": "Limit of the worker's resident memory; 0 if unknown.",
    "gates": "Compiled gates.",
    "topics": "Topics with a state.",
    "policy_version": "Version of the policies in force.",
    "event_loop_lag_seconds": "How late the last once-a-second work was.",
}
LOG = {
    "decided": "Decisions taken.",
    "emitted": "Decisions written to the decision log.",
    "dropped": "Decisions lost because the log was full or could not be written.",
    "file_errors": "Failed writes of decision files.",
    "journal_errors": "Failed writes of the refusal journal.",
    "journal_skipped": "Refusals left out of the journal because too many came at once.",
    "journal_lost": "Refusals missing in the journal because it could not be written for too long.",
    "hook_errors": "Batches that a plugin raised on.",
}
LOG_GAUGES = {"queued": "Decisions that are not written yet."}
SUPERVISOR_COUNTERS = {
    "store_facts_lost": "Node addresses given up because too many waited for the store.",
    "store_facts_conflicting": "Ports for single brokers that another gateway of the store gave to another "
    "broker.",
    "config_reloads_failed": "Changes of file or store that could not be used.",
    "rollout_fallbacks": "Policies that exceeded the budget of the roll-out, and are only observed again.",
}
SUPERVISOR_GAUGES = {
    "store_facts_waiting": "Node addresses that the store has not accepted yet because it cannot be written.",
    "store_age_seconds": "Age of what is known of the policy store: near 0 while it answers.",
    "store_copy_in_use": "1 if the local copy replaces a policy store that has not answered since the start.",
    "config_last_reload_successful": "1 if file and store could be read when they last changed; at 0 the "
    "last good policies are in force.",
    "config_version": "Version of the policies last read.",
}


class GatewayCollector(Collector):
    """Makes metrics when they are asked for.

    :param snapshots: gives the last snapshot of each worker.
    :param status: gives the supervisor's own; None where there is no supervisor.
    """

    def __init__(
        self, snapshots: Callable[[], Sequence[Snapshot]], status: Callable[[], Status] | None = None
    ) -> None:
        self._snapshots = snapshots
        self._status = status

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the first collection."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """All metrics of all workers."""
        snapshots = self._snapshots()
        supervisor = () if self._status is None else _of_supervisor(self._status())
        own = (
            _policies(snapshots),
            size_histograms(snapshots),
            (hold_histogram(snapshots),),
            _topics(snapshots),
            limit_families(snapshots),
            client_families(snapshots),
            rollout_families(snapshots),
            _named(snapshots),
            _worker(snapshots),
            (call_family(snapshots),),
            certificate_families(snapshots),
            budget_families(snapshots),
            (build_info(),),
            supervisor,
        )
        taken = set()
        for family in chain.from_iterable(own):
            taken.add(family.name)
            yield family
        yield from plugin_families(snapshots, taken)


def _policies(snapshots: Sequence[Snapshot]) -> Iterable[Metric]:
    """The metrics that the requirements name."""
    violations = counter(
        "policy_violation",
        "Operations that a policy refused or dropped, by outcome; held or only observed ones, by action.",
        "policy_type topic_name violation_reason",
    )
    throttles = counter(
        "rate_limit_throttle",
        "Operations that a rate limit held, refused or dropped.",
        "rate_type topic_name",
    )
    producers = gauge("producer_count", "Producers attached.", "topic_name")
    consumers = gauge("consumer_count", "Consumers attached.", "topic_name subscription_name")
    used = gauge(
        "rate_limiter_utilization",
        "Percent of a rate limit in use, on average in the last second and the last 10; of messages and "
        "bytes, and of a topic's subscriptions, what uses most.",
        "rate_type topic_name window",
    )
    for snapshot in snapshots:
        broker = snapshot["broker"]
        for topic, sample in snapshot["topics"].items():
            throttled: dict[str, int] = {}
            for policy, reason, count, rate_type in _violations(sample["violations"]):
                violations.add_metric([policy, topic, reason, broker], count)
                if rate_type is not None and not reason.startswith("would_"):
                    throttled[rate_type] = throttled.get(rate_type, 0) + count
            for rate_type, count in throttled.items():
                throttles.add_metric([rate_type, topic, broker], count)
            producers.add_metric([topic, broker], sample["producers"])
            for subscription, count in sample["consumers"].items():
                consumers.add_metric([topic, subscription, broker], count)
            for rate_type, by_window in sample["utilization"].items():
                for window, percent in by_window.items():
                    used.add_metric([rate_type, topic, window, broker], percent)
    return (violations, throttles, producers, consumers, used)


def _violations(rows: Iterable[Sequence[Any]]) -> Iterable[tuple[str, str, int, str | None]]:
    """Policy, reason, count and rate type, added up where one reason has several actions."""
    totals: dict[tuple[str, str], int] = {}
    for policy, action, outcome, count in rows:
        if action in ("rewrite", "would_rewrite"):
            continue
        key = (policy, outcome if action in _APPLIED else action)
        totals[key] = totals.get(key, 0) + count
    for (policy, reason), count in totals.items():
        yield policy, reason, count, RATE_TYPES.get(policy.removesuffix("_bytes"))


def _topics(snapshots: Sequence[Snapshot]) -> Iterable[Metric]:
    operations = counter("sluicegate_operations", "Operations by decision.", "topic_name action")
    messages = counter("sluicegate_messages", "Messages passed.", "topic_name direction")
    nbytes = counter("sluicegate_message_bytes", "Bytes passed.", "topic_name direction")
    for snapshot in snapshots:
        broker = snapshot["broker"]
        for topic, sample in snapshot["topics"].items():
            counts = dict(zip(COUNTERS, sample["counters"], strict=True))
            operations.add_metric([topic, "allow", broker], counts["allowed_ops"])
            for action, name in (("reject", "rejected"), ("delay", "delayed"), ("drop", "dropped")):
                operations.add_metric([topic, action, broker], counts[name])
            operations.add_metric([topic, "observed", broker], counts["observed"])
            messages.add_metric([topic, "publish", broker], counts["allowed_messages"])
            messages.add_metric([topic, "dispatch", broker], counts["dispatched_messages"])
            nbytes.add_metric([topic, "publish", broker], counts["allowed_bytes"])
            nbytes.add_metric([topic, "dispatch", broker], counts["dispatched_bytes"])
    return (operations, messages, nbytes)


def _named(snapshots: Sequence[Snapshot]) -> Iterable[Metric]:
    """Messages that broker rooms count by topic, under the names that their brokers give to such metrics."""
    families: dict[str, CounterMetricFamily] = {}
    for snapshot in snapshots:
        for topic, sample in snapshot["topics"].items():
            for name, count in sample["named"].items():
                if name not in families:
                    families[name] = CounterMetricFamily(
                        name,
                        "Messages, counted by a broker plugin.",
                        labels=["cluster", "namespace", "topic"],
                    )
                families[name].add_metric([snapshot["broker"], sample["namespace"], topic], count)
    return families.values()


def _worker(snapshots: Sequence[Snapshot]) -> Iterable[Metric]:
    yield from _by_broker(snapshots, CounterMetricFamily, "counters", EVENTS)
    yield from _by_broker(snapshots, GaugeMetricFamily, "gauges", GAUGES)
    yield from _by_broker(snapshots, CounterMetricFamily, "decision_log", LOG, "decision_log_")
    yield from _by_broker(snapshots, GaugeMetricFamily, "decision_log", LOG_GAUGES, "decision_log_")
    yield from _by_name(snapshots)


def _by_broker(
    snapshots: Sequence[Snapshot], kind: type[Family], part: str, texts: Mapping[str, str], prefix: str = ""
) -> Iterable[Metric]:
    """One family for each name of a part of the snapshots."""
    for name, text in texts.items():
        family = kind(f"sluicegate_{prefix}{name}", text, labels=["broker"])
        for snapshot in snapshots:
            family.add_metric([snapshot["broker"]], snapshot[part].get(name, 0))
        yield family


def _by_name(snapshots: Sequence[Snapshot]) -> Iterable[Metric]:
    """Counters whose names plugins choose: a label, not a metric each."""
    closed = counter(
        "sluicegate_session_closes", "Connections closed by a broker plugin, by its reason.", "reason"
    )
    events = counter("sluicegate_broker_events", "Events counted by a broker plugin.", "event")
    faults = counter("sluicegate_plugin_faults", "Exceptions raised by a plugin.", "plugin")
    for snapshot in snapshots:
        broker = snapshot["broker"]
        reasons = {name: n for name, n in snapshot["counters"].items() if name not in EVENTS}
        for family, counts in (
            (closed, reasons),
            (events, snapshot["front"]),
            (faults, snapshot["plugin_faults"]),
        ):
            for name, value in counts.items():
                family.add_metric([name, broker], value)
    return (closed, events, faults, *_loop_holds(snapshots))


def _loop_holds(snapshots: Sequence[Snapshot]) -> Iterable[Metric]:
    """Blockers of the event loop; the watchdog bounds the modules."""
    holds = counter(
        "sluicegate_event_loop_holds", "Times that work of a module held the event loop.", "module"
    )
    seconds = counter("sluicegate_event_loop_held_seconds", "Total time of these holds.", "module")
    for snapshot in snapshots:
        for name, (count, held_s) in snapshot.get("loop_holds", {}).items():
            holds.add_metric([name, snapshot["broker"]], count)
            seconds.add_metric([name, snapshot["broker"]], held_s)
    return (holds, seconds)


def _of_supervisor(status: Status) -> Iterable[Metric]:
    # Of several workers of a broker each has a label more.
    labels = ["broker", "worker"]
    up = GaugeMetricFamily("sluicegate_worker_up", "1 if a worker serves clients.", labels=labels)
    restarts = CounterMetricFamily(
        "sluicegate_worker_restarts", "Times that a worker ended and was started again.", labels=labels
    )
    left_out = CounterMetricFamily(
        "sluicegate_log_lines_left_out",
        "Lines left out of the log because they repeated others.",
        labels=["process", *labels],
    )
    left_out.add_metric(["supervisor", ""], status["log_lines_left_out"])
    for name, worker in status["workers"].items():
        which = worker_labels(name, worker)
        left_out.add_metric(["worker", *which], worker["log_lines_left_out"])
        up.add_metric(which, worker["up"])
        restarts.add_metric(which, worker["restarts"])
    yield from (up, restarts, left_out)
    yield from process_metrics(status["workers"])
    for name, text in SUPERVISOR_COUNTERS.items():
        yield CounterMetricFamily(f"sluicegate_{name}", text, value=status[name])
    for name, text in SUPERVISOR_GAUGES.items():
        yield GaugeMetricFamily(f"sluicegate_{name}", text, value=status[name])
