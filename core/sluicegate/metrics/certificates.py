"""Metrics of the TLS files that each worker uses."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prometheus_client.core import Metric

from sluicegate.metrics.families import counter, gauge


def certificate_families(snapshots: Sequence[Mapping[str, Any]]) -> Iterable[Metric]:
    """Expiry of certificates, and whether changed files could be used.

    :param snapshots: of the workers, as `Worker.snapshot` makes them.
    """
    ends = gauge(
        "sluicegate_certificate_not_after_timestamp_seconds",
        "When a certificate in use expires, in seconds since 1970; of authorities, the last one to expire.",
        "role file",
    )
    usable = gauge(
        "sluicegate_certificate_last_reload_successful",
        "1 if the TLS files of a section could be used when they last changed; at 0 the last good ones are.",
        "section",
    )
    reloads = counter(
        "sluicegate_certificate_reloads",
        "Times that the TLS files of a section were read again and used.",
        "section",
    )
    for snapshot in snapshots:
        broker = snapshot["broker"]
        for part in snapshot["tls"]:
            section = part["section"]
            usable.add_metric([section, broker], part["successful"])
            reloads.add_metric([section, broker], part["renewals"])
            for key, path, not_after in part["not_after"]:
                ends.add_metric([f"{section}.{key}", path, broker], not_after)
    return (ends, usable, reloads)
