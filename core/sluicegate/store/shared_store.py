"""A policy store in a metadata store such as etcd, which any number of gateways can share."""

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from time import monotonic
from typing import Any, TypeVar

from sluicegate.model import PolicyLayer
from sluicegate.store.metadata.metadata_store import (
    TRANSACTION_LIMIT,
    Delete,
    Entry,
    MetadataStore,
    Put,
    Unchanged,
)
from sluicegate.store.policy_store import (
    Author,
    Change,
    Edit,
    PolicyStore,
    Revision,
    Row,
    StoreError,
    StoreUnavailableError,
    differences,
    layers_of,
    now_text,
    refuse_conflict,
)
from sluicegate.store.records import decoded_revision, decoded_row, encoded_revision, encoded_row, setting_key
from sluicegate.store.replica import VERSION_KEY, Replica

_KEPT_CHANGES = 1_000
_MOST_FIELDS = TRANSACTION_LIMIT - 3
"""Most fields of one change, beside the version, an entry of the history, and an old entry that goes."""
_WRITING_S = 10.0
"""How long a write is retried while concurrent changes interfere."""
_PAUSE_S = 0.02
_MARGIN_S = 5.0
"""Extra time beyond the timeouts of the metadata store, to abort calls that hang."""
Result = TypeVar("Result")


class SharedStore(PolicyStore):
    """A `PolicyStore` with a thread that talks to the metadata store and follows all gateways' changes.

    `layers` and `version` read from memory. While the metadata store does not respond, they raise an error
    with the age of the replica. The gateway then continues with its last good policies.

    :param open_metadata: opens the metadata store; called in the thread's event loop.
    :param prefix: prefix of all keys, without a trailing slash.
    :param name: the store's name in errors, without a login.
    :param timeout_s: timeout of one operation of the metadata store.
    :raises StoreError: if the policies cannot be read now.
    """

    def __init__(
        self, open_metadata: Callable[[], MetadataStore], prefix: str, name: str, timeout_s: float
    ) -> None:
        self._prefix = prefix
        self._name = name
        self._timeout_s = timeout_s
        self._loop = asyncio.new_event_loop()
        self._turns = asyncio.Lock()
        """Held by the change that is written."""
        self._thread = threading.Thread(target=self._loop.run_forever, name="policy store", daemon=True)
        self._metadata: MetadataStore | None = None
        self._replica: Replica | None = None
        self._thread.start()
        try:
            self._run(self._open(open_metadata))
            self._open_replica.wait_for_listing(timeout_s + _MARGIN_S)
        except BaseException:
            # The caller gets no object that it could close, and the thread would go on.
            self.close()
            raise

    def layers(self) -> tuple[int, tuple[PolicyLayer, ...]]:
        """Read all settings and their version."""
        version, rows = self._open_replica.read()
        return version, layers_of(rows)

    def version(self) -> int:
        """Number of the last change by any process."""
        return self._open_replica.version()

    def change(
        self, edits: Sequence[Edit], author: Author, expected: int | None = None, policies: str = ""
    ) -> int:
        """Set and remove fields in one transaction, of which etcd bounds the size."""
        if len(edits) > _MOST_FIELDS:
            message = f"{self._name} takes at most {_MOST_FIELDS} fields in one change"
            raise StoreError(message, "make several changes")
        return self._finish(self._write(edits, author, expected, policies))

    def record(self, author: Author, changes: Sequence[Change], policies: str) -> int:
        """Note in the history that a configuration file changed."""
        return self._finish(self._record(author, tuple(changes), policies))

    def history(self, limit: int, before: int | None = None) -> list[Revision]:
        """The last revisions, newest first."""

        async def read() -> list[Revision]:
            listed = (await self._keys.list(f"{self._prefix}/history/")).entries
            entries = [entry for entry in listed if before is None or entry.key < self._line(before)]
            try:
                return [decoded_revision(entry.value) for entry in entries[-limit:][::-1]]
            except ValueError as error:
                message = f"{self._name} holds a history that cannot be read ({error})"
                raise StoreError(message, "delete the damaged keys") from error

        return self._run(read()) if limit > 0 else []

    def put_fact(self, key: str, value: str) -> None:
        """Store or remove a fact, unless another gateway has already done the same."""

        async def write() -> None:
            entry = await self._keys.get(self._fact(key))
            if not value:
                if entry is not None:
                    await self._keys.delete(self._fact(key))
            elif entry is None or entry.value != value.encode():
                await self._keys.put(self._fact(key), value.encode())

        self._run(write())

    def claim_fact(self, key: str, value: str) -> str:
        """Store a fact unless its key exists."""

        async def claim() -> str:
            whole = self._fact(key)
            while not await self._keys.transact([Unchanged(whole, 0)], [Put(whole, value.encode())]):
                entry = await self._keys.get(whole)
                if entry is not None:  # otherwise it has just been deleted
                    return entry.value.decode(errors="replace")
            return value

        return self._run(claim())

    def facts(self, prefix: str) -> Mapping[str, str]:
        """Read all facts whose keys start with a prefix."""
        start = len(self._fact(""))
        entries = self._run(self._keys.list(self._fact(prefix))).entries
        return {entry.key[start:]: entry.value.decode(errors="replace") for entry in entries}

    def close(self) -> None:
        """Close the connection and stop the thread. Further calls have no effect."""
        if not self._thread.is_alive():
            return
        try:
            self._run(self._end())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _open(self, open_metadata: Callable[[], MetadataStore]) -> None:
        self._metadata = open_metadata()
        self._replica = Replica(self._metadata, f"{self._prefix}/policies/", self._name, self._timeout_s)
        self._replica.start()

    async def _end(self) -> None:
        if self._replica is not None:
            await self._replica.stop()
        if self._metadata is not None:
            await self._metadata.close()
        # gRPC ends its calls in tasks of its own, a few loop iterations after their channel is closed.
        if calls := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(calls, timeout=_MARGIN_S)
        await self._loop.shutdown_asyncgens()

    def _finish(self, writing: Coroutine[Any, Any, int]) -> int:
        version = self._run(writing, _WRITING_S)
        # A watch updates the replica, and may lag. The writer must read its own change next, so it waits.
        self._open_replica.wait_for_version(version, self._timeout_s)
        return version

    async def _write(self, edits: Sequence[Edit], author: Author, expected: int | None, policies: str) -> int:
        """Write one change by compare-and-set; retry if a concurrent change interferes.

        :return: the new version, or the current one if there is nothing to change.
        """
        keys = {edit.key: f"{self._prefix}/policies/{setting_key(edit.key)}" for edit in edits}

        async def attempt(version: int, last: Entry | None) -> int | None:
            refuse_conflict(expected, version)
            entries = {key: await self._keys.get(path) for key, path in keys.items()}
            old = {key: decoded_row(each.value).value for key, each in entries.items() if each is not None}
            changes = differences(edits, old.get)
            if not changes:
                return version
            conditions = [_unchanged(keys[change.key], entries[change.key]) for change in changes]
            written = [_written(keys[change.key], change, version + 1) for change in changes]
            revision = Revision(version + 1, author, now_text(), changes, policies)
            return await self._commit(revision, last, conditions, written)

        return await self._retried(attempt)

    async def _record(self, author: Author, changes: tuple[Change, ...], policies: str) -> int:
        async def attempt(version: int, last: Entry | None) -> int | None:
            revision = Revision(version + 1, author, now_text(), changes, policies, is_of_file=True)
            return await self._commit(revision, last, [], [])

        return await self._retried(attempt)

    async def _retried(self, attempt: Callable[[int, Entry | None], Awaitable[int | None]]) -> int:
        """Retry with the store's current version until no concurrent change of another process interferes."""
        async with self._turns:  # changes of this process do not interfere with each other
            deadline = monotonic() + _WRITING_S
            while monotonic() < deadline:
                last = await self._keys.get(self._counter)
                version = await attempt(0 if last is None else int(last.value), last)
                if version is not None:
                    return version
                await asyncio.sleep(random.uniform(0, _PAUSE_S))  # noqa: S311 - jitter
        raise StoreError(f"{self._name} has too many concurrent changes", "try again")

    async def _commit(
        self,
        revision: Revision,
        last: Entry | None,
        conditions: list[Unchanged],
        written: list[Put | Delete],
    ) -> int | None:
        """Write a revision, unless the store has changed; None then."""
        number = revision.number
        parts = [Put(self._counter, str(number).encode()), *written]
        parts.append(Put(self._line(number), encoded_revision(revision)))
        if number > _KEPT_CHANGES:
            parts.append(Delete(self._line(number - _KEPT_CHANGES)))
        # The counter orders all gateways' changes; the other conditions notice keys written by hand.
        is_done = await self._keys.transact([_unchanged(self._counter, last), *conditions], parts)
        return number if is_done else None

    @property
    def _counter(self) -> str:
        return f"{self._prefix}/policies/{VERSION_KEY}"

    def _fact(self, key: str) -> str:
        return f"{self._prefix}/facts/{key}"

    def _line(self, version: int) -> str:
        """The key of a history entry; keys sort in the order of versions."""
        return f"{self._prefix}/history/{version:016d}"

    @property
    def _keys(self) -> MetadataStore:
        if self._metadata is None or not self._thread.is_alive():
            raise StoreError(f"{self._name} was closed", "open it again")
        return self._metadata

    @property
    def _open_replica(self) -> Replica:
        if self._replica is None or not self._thread.is_alive():
            raise StoreError(f"{self._name} was closed", "open it again")
        return self._replica

    def _run(self, work: Coroutine[Any, Any, Result], longer_s: float = 0.0) -> Result:
        if not self._thread.is_alive():
            work.close()
            raise StoreError(f"{self._name} was closed", "open it again")
        done = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return done.result(2 * self._timeout_s + _MARGIN_S + longer_s)
        except FutureTimeoutError:
            done.cancel()
            raise StoreUnavailableError(
                f"{self._name} does not answer", "check its load and its network"
            ) from None
        except ValueError as error:
            message = f"{self._name} holds invalid policies ({error})"
            raise StoreError(message, "correct or delete those keys") from error


def _unchanged(key: str, entry: Entry | None) -> Unchanged:
    return Unchanged(key, 0 if entry is None else entry.modified)


def _written(key: str, change: Change, version: int) -> Put | Delete:
    if change.new is None:
        return Delete(key)
    return Put(key, encoded_row(Row(change.key, change.new, version)))
