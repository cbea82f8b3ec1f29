"""Key-value stores for metadata that processes share: in memory, in SQLite (one host) or in etcd."""

from sluicegate.store.metadata.following import follow
from sluicegate.store.metadata.memory import MemoryMetadata
from sluicegate.store.metadata.metadata_store import (
    NO_LEASE,
    TRANSACTION_LIMIT,
    CompactedError,
    Delete,
    Entry,
    Event,
    LeaseExpiredError,
    Listing,
    MetadataStore,
    Put,
    Unchanged,
)
from sluicegate.store.metadata.opening import open_metadata

__all__ = [
    "NO_LEASE",
    "TRANSACTION_LIMIT",
    "CompactedError",
    "Delete",
    "Entry",
    "Event",
    "LeaseExpiredError",
    "Listing",
    "MemoryMetadata",
    "MetadataStore",
    "Put",
    "Unchanged",
    "follow",
    "open_metadata",
]
