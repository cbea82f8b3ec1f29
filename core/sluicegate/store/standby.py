"""A remote policy store that is replaced by its local copy if it does not respond at startup."""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from time import monotonic_ns

from sluicegate.model import PolicyLayer
from sluicegate.pacing.backoff import Backoff
from sluicegate.store.local_copy import LocalCopy, StoreState
from sluicegate.store.policy_store import (
    Author,
    Change,
    Edit,
    PolicyStore,
    Revision,
    StoreError,
    StoreUnavailableError,
)
from sluicegate.store.sqlite_file import is_memory, sqlite_path

log = logging.getLogger(__name__)

_NS = 1_000_000_000
_FIRST_RETRY_NS, _LONGEST_RETRY_NS = _NS, 5 * _NS
_COPY_NS = 60 * _NS
"""Interval at which the copy is rewritten even without changes, to update its time."""


def is_remote(url: str) -> bool:
    """Whether a store depends on other hosts."""
    return sqlite_path(url) is None and not is_memory(url)


class StandbyStore(PolicyStore):
    """A `PolicyStore` for a single thread.

    If the store does not respond at startup, `layers` and `facts` read the copy, all other methods raise, and
    later calls retry with backoff. Once the store has responded, the copy is no longer read.

    :param open_store: opens the store.
    :param copy: file with its last known state.
    :param now_ns: monotonic time.
    :param wall_s: Unix time, for the age of a copy.
    :raises StoreError: if the store refuses, or does not respond and there is no usable copy.
    """

    def __init__(
        self,
        open_store: Callable[[], PolicyStore],
        copy: LocalCopy,
        now_ns: Callable[[], int] = monotonic_ns,
        wall_s: Callable[[], float] = lambda: datetime.now(UTC).timestamp(),
    ) -> None:
        self._open_store = open_store
        self._copy = copy
        self._now_ns = now_ns
        self._wall_s = wall_s
        self._retries = Backoff(_FIRST_RETRY_NS, _LONGEST_RETRY_NS)
        self._store: PolicyStore | None = None
        self._copy_due_ns = 0
        self._is_writable = True
        self._age_ns = self._began_ns = 0
        try:
            self._store = open_store()
        except StoreUnavailableError as error:
            self._trouble: StoreError = error
            self._known = self._read_copy(error)
            self._retries.failed(now_ns())
            log.warning("%s", self._unavailable().message)

    @property
    def copy_age_s(self) -> float | None:
        """Age of the copy that replaces the store; None if the store itself is in use."""
        return (self._age_ns + self._now_ns() - self._began_ns) / _NS if self._store is None else None

    def layers(self) -> tuple[int, tuple[PolicyLayer, ...]]:
        """Read all settings and their version."""
        try:
            store = self._opened()
        except StoreError:
            return self._known.version, self._known.layers
        version, layers = store.layers()
        self._write_copy(store, version, layers)
        return version, layers

    def version(self) -> int:
        """Number of the last change; raises while the copy replaces the store."""
        store = self._opened()
        version = store.version()
        if self._now_ns() >= self._copy_due_ns:
            self._write_copy(store, *store.layers())
        return version

    def change(
        self, edits: Sequence[Edit], author: Author, expected: int | None = None, policies: str = ""
    ) -> int:
        """Set and remove fields."""
        return self._opened().change(edits, author, expected, policies)

    def record(self, author: Author, changes: Sequence[Change], policies: str) -> int:
        """Note in the history that a configuration file changed."""
        return self._opened().record(author, changes, policies)

    def history(self, limit: int, before: int | None = None) -> list[Revision]:
        """The last revisions, newest first."""
        return self._opened().history(limit, before)

    def put_fact(self, key: str, value: str) -> None:
        """Store a fact, or remove it."""
        self._opened().put_fact(key, value)
        self._copy_due_ns = 0  # facts change no version, so nothing else makes the copy due

    def claim_fact(self, key: str, value: str) -> str:
        """Store a fact unless its key exists."""
        kept = self._opened().claim_fact(key, value)
        self._copy_due_ns = 0
        return kept

    def facts(self, prefix: str) -> Mapping[str, str]:
        """Read all facts whose keys start with a prefix."""
        try:
            store = self._opened()
        except StoreError:
            return {key: value for key, value in self._known.facts.items() if key.startswith(prefix)}
        return store.facts(prefix)

    def close(self) -> None:
        """Close the store; the copy stays."""
        if self._store is not None:
            self._store.close()

    def _opened(self) -> PolicyStore:
        """The store itself, opened if the backoff allows another attempt.

        :raises StoreError: if it still does not respond.
        """
        if self._store is None:
            now_ns = self._now_ns()
            if self._retries.wait_ns(now_ns):
                raise self._unavailable()
            try:
                self._store = self._open_store()
            except StoreError as error:
                self._trouble = error
                self._retries.failed(now_ns)
                raise self._unavailable() from error
        return self._store

    def _unavailable(self) -> StoreUnavailableError:
        message = (
            f"{self._trouble.message}; policies and facts are read from {self._copy.path}, "
            f"which is {self.copy_age_s or 0:.0f} s old"
        )
        return StoreUnavailableError(message, self._trouble.remedy)

    def _read_copy(self, error: StoreUnavailableError) -> StoreState:
        try:
            known = self._copy.read()
        except (OSError, ValueError) as damage:
            message = f"{error.message}, and the local copy {self._copy.path} cannot be used: {damage}"
            raise StoreUnavailableError(message, error.remedy) from error
        if known is None:
            message = f"{error.message}, and there is no local copy of it at {self._copy.path}"
            raise StoreUnavailableError(message, error.remedy) from error
        # The wall clock may have been set back.
        self._age_ns = max(0, int((self._wall_s() - known.at_s) * _NS))
        self._began_ns = self._now_ns()
        return known

    def _write_copy(self, store: PolicyStore, version: int, layers: tuple[PolicyLayer, ...]) -> None:
        self._copy_due_ns = self._now_ns() + _COPY_NS
        try:
            self._copy.write(StoreState(version, layers, store.facts(""), self._wall_s()))
        except (OSError, StoreError) as error:
            if self._is_writable:
                log.warning("the local copy of the policy store cannot be written: %s", error)
            self._is_writable = False
            return
        self._is_writable = True
