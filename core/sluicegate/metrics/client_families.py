"""Metrics of principals and of client ids: of the busiest each, of all others as `other`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prometheus_client.core import Metric

from sluicegate.metrics.families import counter, gauge

_DIRECTIONS = (("publish", "published"), ("dispatch", "dispatched"))


def client_families(snapshots: Sequence[Mapping[str, Any]]) -> Iterable[Metric]:
    """What principals and clients sent, received, and had refused or held; principals' quotas.

    :param snapshots: of the workers, as `Worker.snapshot` makes them.
    """
    yield from _of(snapshots, "principal", "principals", "a principal")
    yield from _of(snapshots, "client", "clients", "a client id")
    yield from _quotas(snapshots)


def _of(snapshots: Sequence[Mapping[str, Any]], kind: str, part: str, whom: str) -> Iterable[Metric]:
    messages = counter(
        f"sluicegate_{kind}_messages", f"Messages that {whom} published or was sent.", f"{kind} direction"
    )
    nbytes = counter(
        f"sluicegate_{kind}_message_bytes",
        f"Bytes of messages that {whom} published or was sent.",
        f"{kind} direction",
    )
    refused = counter(
        f"sluicegate_{kind}_refusals", f"Operations of {whom} that were refused or dropped.", kind
    )
    delayed = counter(f"sluicegate_{kind}_delays", f"Operations of {whom} that were held.", kind)
    held = gauge(f"sluicegate_{kind}_held", f"Requests of {whom} held now.", kind)
    for snapshot in snapshots:
        broker = snapshot["broker"]
        for name, sample in snapshot[part].items():
            for direction, done in _DIRECTIONS:
                messages.add_metric([name, direction, broker], sample[f"{done}_messages"])
                nbytes.add_metric([name, direction, broker], sample[f"{done}_bytes"])
            refused.add_metric([name, broker], sample["refused"])
            delayed.add_metric([name, broker], sample["delayed"])
            held.add_metric([name, broker], sample["held"])
    return (messages, nbytes, refused, delayed, held)


def _quotas(snapshots: Sequence[Mapping[str, Any]]) -> Iterable[Metric]:
    limits = gauge(
        "sluicegate_principal_limit",
        "Publish quota of a principal, in messages or bytes a second.",
        "principal policy",
    )
    used = gauge(
        "sluicegate_principal_limit_used",
        "How much of its publish quota a principal uses, on average in the last 10 seconds.",
        "principal policy",
    )
    for snapshot in snapshots:
        for principal, sample in snapshot["principals"].items():
            for policy, use in sample.get("use", {}).items():
                limits.add_metric([principal, policy, snapshot["broker"]], use["limit"])
                used.add_metric([principal, policy, snapshot["broker"]], use["used_10s"])
    return (limits, used)
