"""Where the usage of volumes is read without a connection to a broker."""

from collections.abc import Callable

from sluicegate.config.storage import StorageConfig
from sluicegate.storage_quota.quota import Read
from sluicegate.storage_quota.sources.path import PathSource
from sluicegate.storage_quota.sources.prometheus import PrometheusSource


def reader(config: StorageConfig, wall_ms: Callable[[], int]) -> Read | None:
    """What reads the usage as a `storage:` section says; None if a broker room has to.

    :param wall_ms: the wall clock.
    """
    if config.source == "path":
        return PathSource(config, wall_ms).read
    if config.source == "prometheus":
        return PrometheusSource(config, wall_ms).read
    return None
