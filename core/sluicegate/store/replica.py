"""A replica in memory of the policies in a metadata store, with its age."""

import asyncio
import threading
from collections.abc import Coroutine
from time import monotonic

from sluicegate.store.metadata.following import follow
from sluicegate.store.metadata.metadata_store import Entry, Listing, MetadataStore
from sluicegate.store.policy_store import Row, StoreError, StoreUnavailableError
from sluicegate.store.records import decoded_row

VERSION_KEY = "version"
"""Key of the number of the last change. Every write transaction requires that it is unchanged."""
_CONFIRM_S = 1.0
"""Interval of the checks that the replica is up to date. Changes themselves arrive at once."""
_LATE = 2
"""Consecutive checks that find a newer version before the watch is considered dead."""


class Replica:
    """Follows the policies in the event loop of the metadata store. Other threads read the replica.

    :param metadata: the store.
    :param prefix: prefix of the policies' keys, with a trailing slash.
    :param name: the store's name in errors.
    :param timeout_s: timeout of one operation of the store.
    """

    def __init__(self, metadata: MetadataStore, prefix: str, name: str, timeout_s: float) -> None:
        self._metadata = metadata
        self._prefix = prefix
        self._name = name
        self._stale_s = _LATE * _CONFIRM_S + timeout_s
        self._changed = threading.Condition()
        self._rows: dict[str, Row] = {}
        self._unreadable: dict[str, str] = {}
        """Problems with values that cannot be decoded, by key."""
        self._version: Entry | None = None
        self._confirmed: float | None = None
        """When the replica was last confirmed to be up to date, in monotonic time."""
        self._trouble: StoreError | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Start to follow, in the running event loop."""
        self._spawn("follow", self._follow())
        self._spawn("confirm", self._confirm())

    async def stop(self) -> None:
        """Stop following."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def wait_for_listing(self, timeout_s: float) -> None:
        """Return once the policies are known.

        :raises StoreError: on the store's first error.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._confirmed is not None or self._trouble is not None, timeout_s
            )
            if self._confirmed is None:
                raise self._trouble or StoreUnavailableError(
                    f"{self._name} does not answer", "check its load and network"
                )

    def wait_for_version(self, version: int, timeout_s: float) -> None:
        """Wait until the replica has reached a version, or until the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self._number() >= version, timeout_s)

    def version(self) -> int:
        """Number of the last change.

        :raises StoreError: if the replica is stale, or a value cannot be decoded.
        """
        with self._changed:
            self._require_fresh()
            return self._number()

    def read(self) -> tuple[int, tuple[Row, ...]]:
        """The version and all its settings; raises as `version` does."""
        with self._changed:
            self._require_fresh()
            return self._number(), tuple(self._rows.values())

    def _require_fresh(self) -> None:
        if self._unreadable:
            key, problem = min(self._unreadable.items())
            raise StoreError(
                f"{self._name} holds {key!r}, which is not a policy ({problem})",
                "correct or delete that key",
            )
        age_s = monotonic() - (self._confirmed or 0.0)
        if age_s > self._stale_s:
            cause = f": {self._trouble}" if self._trouble is not None else ""
            raise StoreUnavailableError(
                f"{self._name} does not respond, the known policies are {age_s:.0f} s old{cause}",
                "these policies stay in effect until it responds again",
            )

    def _number(self) -> int:
        return int(self._version.value) if self._version is not None else 0

    def _spawn(self, name: str, work: Coroutine[None, None, None]) -> None:
        self._tasks[name] = asyncio.get_running_loop().create_task(work)

    async def _follow(self) -> None:
        async for seen in follow(self._metadata, self._prefix, self._lost):
            with self._changed:
                if isinstance(seen, Listing):
                    self._rows.clear()
                    self._unreadable.clear()
                    self._version = None
                    for entry in seen.entries:
                        self._apply(entry.key, entry)
                    self._confirmed = monotonic()
                else:
                    for event in seen:
                        self._apply(event.key, event.entry)
                self._changed.notify_all()

    def _apply(self, key: str, entry: Entry | None) -> None:
        self._unreadable.pop(key, None)
        try:
            if key == self._prefix + VERSION_KEY:
                self._version = None
                if entry is not None:
                    int(entry.value)
                self._version = entry
            elif entry is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = decoded_row(entry.value)
        except ValueError as error:
            self._unreadable[key] = str(error)

    def _lost(self, error: StoreError) -> None:
        with self._changed:
            self._trouble = error
            self._changed.notify_all()

    async def _confirm(self) -> None:
        """Check regularly that the replica is up to date: a dead watch looks the same as an idle one."""
        late = 0
        while True:
            await asyncio.sleep(_CONFIRM_S)
            # The time of the question: what the answer confirms may be as old as that.
            asked = monotonic()
            try:
                entry = await self._metadata.get(self._prefix + VERSION_KEY)
            except StoreError as error:
                self._lost(error)
                continue
            if _modified(entry) <= _modified(self._version):
                late = 0
                with self._changed:
                    if self._confirmed is not None:
                        self._confirmed, self._trouble = asked, None
            else:
                late += 1
            if late >= _LATE:
                late = 0
                self._tasks["follow"].cancel()
                self._spawn("follow", self._follow())


def _modified(entry: Entry | None) -> int:
    return 0 if entry is None else entry.modified
