"""Storage quotas: publishing slows down and pauses as the volumes of a broker's nodes fill up.

`StorageQuota` works with any source of usage; `sources` has those that do not depend on a kind of broker.
"""

from sluicegate.features.storage_quota.quota import StorageQuota, StorageReadError
from sluicegate.features.storage_quota.snapshot import (
    BrokerUsage,
    Snapshot,
    SnapshotError,
    json_schema,
    read_snapshot,
    write_snapshot,
)
from sluicegate.features.storage_quota.usage_tracker import UsageTracker, Verdict
from sluicegate.features.storage_quota.volumes import Limit, Limits, LimitType, State, Volume

__all__ = [
    "StorageQuota",
    "StorageReadError",
    "UsageTracker",
    "Verdict",
    "BrokerUsage",
    "Snapshot",
    "SnapshotError",
    "json_schema",
    "read_snapshot",
    "write_snapshot",
    "Limit",
    "Limits",
    "LimitType",
    "State",
    "Volume",
]
