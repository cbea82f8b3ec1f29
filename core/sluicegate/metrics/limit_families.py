"""Metrics of limits: what is set, how much of it is used, and what is held now."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import Metric

from sluicegate.metrics.families import gauge


def limit_families(snapshots: Sequence[Mapping[str, Any]]) -> Iterable[Metric]:
    """The limits of topics, and with an empty topic those of the broker level; their use; held requests.

    :param snapshots: of the workers, as `Worker.snapshot` makes them.
    """
    limits = gauge(
        "sluicegate_limit",
        "What a policy or a default limits, in messages or bytes a second, bytes, seconds, or a count.",
        "topic policy level",
    )
    used = gauge(
        "sluicegate_limit_used",
        "How much of a limit is used: of rates the average of the last 10 seconds, of counts the number now.",
        "topic policy",
    )
    held = gauge("sluicegate_held", "Requests that are held now.", "topic")
    for snapshot in snapshots:
        broker = snapshot["broker"]
        for topic, policy, use in _uses(snapshot):
            limits.add_metric([topic, policy, use["level"], broker], use["limit"])
            if "used_10s" in use:
                used.add_metric([topic, policy, broker], use["used_10s"])
        for topic, sample in snapshot["topics"].items():
            held.add_metric([topic, broker], sample["held"])
    return (limits, used, held)


def _uses(snapshot: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for policy, use in snapshot["use"].items():
        yield "", policy, use
    for topic, sample in snapshot["topics"].items():
        for policy, use in sample["use"].items():
            yield topic, policy, use
