"""Opens the metadata store that a URL refers to."""

from sluicegate.store.metadata.etcd.address import EtcdAddress, etcd_address
from sluicegate.store.metadata.memory import MemoryMetadata
from sluicegate.store.metadata.metadata_store import MetadataStore
from sluicegate.store.metadata.sqlite import SqliteMetadata
from sluicegate.store.policy_store import StoreError
from sluicegate.store.sqlite_file import is_memory, sqlite_path


def open_metadata(url: str) -> tuple[MetadataStore, str] | None:
    """Open `etcd://…`, `etcds://…`, `sqlite:///PATH` or `memory:`. Each `memory:` store has its own keys.

    :return: the store, and the URL's prefix for all keys; None if no store has a URL of this kind.
    :raises StoreError: if the URL is malformed, or a required package is missing. The first call shows
        whether the store is reachable.
    """
    if is_memory(url):
        return MemoryMetadata(), ""
    path = sqlite_path(url)
    if path is not None:
        return SqliteMetadata(path), ""
    address = etcd_address(url)
    return None if address is None else (etcd_metadata(address), address.prefix)


def etcd_metadata(address: EtcdAddress) -> MetadataStore:
    """Create a metadata store in etcd.

    :raises StoreError: if gRPC is not installed.
    """
    try:
        from sluicegate.store.metadata.etcd.etcd_store import EtcdMetadata
    except ImportError as error:
        missing = f"etcd needs packages that are not installed ({error})"
        raise StoreError(missing, "pip install 'sluicegate[etcd]'") from error
    return EtcdMetadata(address)
