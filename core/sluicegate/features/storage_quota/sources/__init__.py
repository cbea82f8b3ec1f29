"""Sources of volume usage that need no connection to a broker."""

from collections.abc import Callable

from sluicegate.config.storage import StorageConfig
from sluicegate.config.tls import context_for_broker
from sluicegate.features.storage_quota.quota import Read
from sluicegate.features.storage_quota.sources.path import PathSource
from sluicegate.features.storage_quota.sources.prometheus import PrometheusSource, TlsFor


def reader(
    config: StorageConfig, wall_ms: Callable[[], int], tls_for: TlsFor = context_for_broker
) -> Read | None:
    """Create the reader for a `storage:` section; None if the source belongs to a broker room.

    :param wall_ms: the wall clock.
    :param tls_for: creates a TLS context that trusts given authorities.
    """
    if config.source == "path":
        return PathSource(config, wall_ms).read
    if config.source == "prometheus":
        return PrometheusSource(config, wall_ms, tls_for).read
    return None
