"""Registers the built-in stores through the same hook as third-party stores."""

from functools import partial

from sluicegate.hooks import hookimpl
from sluicegate.store.memory import MemoryStore
from sluicegate.store.metadata.etcd.address import etcd_address
from sluicegate.store.metadata.opening import etcd_metadata
from sluicegate.store.policy_store import PolicyStore
from sluicegate.store.shared_store import SharedStore
from sluicegate.store.sqlite import SqliteStore
from sluicegate.store.sqlite_file import is_memory, sqlite_path

_PREFIX = "/sluicegate"
"""Default prefix of the keys in etcd."""


@hookimpl
def sluicegate_metadata_store(url: str) -> PolicyStore | None:
    """Open `sqlite:///relative.db`, `sqlite:////absolute.db`, `etcd://host:2379/prefix` or `memory:`.

    :raises StoreError: if a SQLite file cannot be opened, or an etcd cannot be read.
    """
    if is_memory(url):
        return MemoryStore()
    address = etcd_address(url)
    if address is not None:
        open_metadata = partial(etcd_metadata, address)
        return SharedStore(
            open_metadata, address.prefix or _PREFIX, "policy store in etcd", address.timeout_s
        )
    path = sqlite_path(url)
    return SqliteStore(path) if path is not None else None
