"""The built-in stores, behind the hook that other stores use too."""

from urllib.parse import unquote

from sluicegate.hooks import hookimpl
from sluicegate.store.base import PolicyStore
from sluicegate.store.memory import MemoryStore
from sluicegate.store.sqlite import SqliteStore


def sqlite_path(url: str) -> str | None:
    """The file that a `sqlite:///` URL names; None for other URLs."""
    path = unquote(url.removeprefix("sqlite:///"))
    return path if url.startswith("sqlite:///") and path else None


@hookimpl
def sluicegate_metadata_store(url: str) -> PolicyStore | None:
    """Open `sqlite:///relative.db`, `sqlite:////absolute.db` or `memory:`.

    :raises StoreError: if a SQLite file cannot be opened.
    """
    if url in ("memory:", "memory://"):
        return MemoryStore()
    path = sqlite_path(url)
    return SqliteStore(path) if path is not None else None
