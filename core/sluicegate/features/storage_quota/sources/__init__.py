"""Where the usage of volumes is read without a connection to a broker."""

from collections.abc import Callable

from sluicegate.config.storage import StorageConfig
from sluicegate.config.tls import context_for_broker
from sluicegate.features.storage_quota.quota import Read
from sluicegate.features.storage_quota.sources.path import PathSource
from sluicegate.features.storage_quota.sources.prometheus import PrometheusSource, TlsFor


def reader(
    config: StorageConfig, wall_ms: Callable[[], int], tls_for: TlsFor = context_for_broker
) -> Read | None:
    """What reads the usage as a `storage:` section says; None if a broker room has to.

    :param wall_ms: the wall clock.
    :param tls_for: gives what to speak with a server that certain authorities vouch for.
    """
    if config.source == "path":
        return PathSource(config, wall_ms).read
    if config.source == "prometheus":
        return PrometheusSource(config, wall_ms, tls_for).read
    return None
