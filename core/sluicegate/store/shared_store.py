"""A policy store in a metadata store such as etcd, which any number of gateways can share."""

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from time import monotonic
from typing import Any, TypeVar

from sluicegate.model import Level, PolicyLayer, PolicyValue
from sluicegate.store.metadata.metadata_store import TRANSACTION_LIMIT, Delete, MetadataStore, Put, Unchanged
from sluicegate.store.policy_store import (
    Change,
    PolicyStore,
    Row,
    StoreError,
    StoreUnavailableError,
    differences,
    layers_of,
)
from sluicegate.store.records import decoded_change, decoded_row, encoded_change, encoded_row, setting_key
from sluicegate.store.replica import VERSION_KEY, Replica

_KEPT_CHANGES = 1_000
_MOST_FIELDS = (TRANSACTION_LIMIT - 1) // 3
"""Most fields of one change: each is a setting, an entry of the history, and an old entry that goes."""
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
    :param place: the store's name in errors, without a login.
    :param timeout_s: timeout of one operation of the metadata store.
    :raises StoreError: if the policies cannot be read now.
    """

    def __init__(
        self, open_metadata: Callable[[], MetadataStore], prefix: str, place: str, timeout_s: float
    ) -> None:
        self._prefix = prefix
        self._place = place
        self._timeout_s = timeout_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="policy store", daemon=True)
        self._metadata: MetadataStore | None = None
        self._replica: Replica | None = None
        self._thread.start()
        try:
            self._run(self._open(open_metadata))
            self._open_replica.wait_for_listing(timeout_s + _MARGIN_S)
        except BaseException:
            self.close()
            raise

    def layers(self) -> tuple[int, tuple[PolicyLayer, ...]]:
        """Read all settings and their version."""
        version, rows = self._open_replica.read()
        return version, layers_of(rows)

    def version(self) -> int:
        """Number of the last change by any process."""
        return self._open_replica.version()

    def change(self, level: Level, name: str, changes: Mapping[str, PolicyValue | None], actor: str) -> int:
        """Set and remove fields in one transaction, of which etcd bounds the size."""
        if len(changes) > _MOST_FIELDS:
            message = f"{self._place} takes at most {_MOST_FIELDS} fields in one change"
            raise StoreError(message, "make several changes")
        version = self._run(self._write(level, name, changes, actor), _WRITING_S)
        self._open_replica.wait_for_version(version, self._timeout_s)
        return version

    def history(self, limit: int) -> list[Change]:
        """The last changes, newest first."""

        async def read() -> list[Change]:
            found = (await self._keys.list(f"{self._prefix}/history/")).entries
            try:
                return [decoded_change(entry.value) for entry in found[-limit:][::-1]]
            except ValueError as error:
                message = f"{self._place} holds a history that cannot be read ({error})"
                raise StoreError(message, "delete the damaged keys") from error

        return self._run(read()) if limit > 0 else []

    def get_fact(self, key: str) -> str | None:
        """Read a fact."""
        entry = self._run(self._keys.get(self._fact(key)))
        return None if entry is None else entry.value.decode(errors="replace")

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
            place = self._fact(key)
            while not await self._keys.transact([Unchanged(place, 0)], [Put(place, value.encode())]):
                entry = await self._keys.get(place)
                if entry is not None:  # otherwise it has just been deleted
                    return entry.value.decode(errors="replace")
            return value

        return self._run(claim())

    def facts(self, prefix: str) -> Mapping[str, str]:
        """Read all facts whose keys start with a prefix."""
        start = len(self._fact(""))
        found = self._run(self._keys.list(self._fact(prefix))).entries
        return {entry.key[start:]: entry.value.decode(errors="replace") for entry in found}

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
        self._replica = Replica(self._metadata, f"{self._prefix}/policies/", self._place, self._timeout_s)
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

    async def _write(
        self, level: Level, name: str, changes: Mapping[str, PolicyValue | None], actor: str
    ) -> int:
        """Write one change by compare-and-set; retry if a concurrent change interferes.

        :return: the new version, or the current one if there is nothing to change.
        """
        counter = f"{self._prefix}/policies/{VERSION_KEY}"
        keys = {field: f"{self._prefix}/policies/{setting_key(level, name, field)}" for field in changes}
        deadline = monotonic() + _WRITING_S
        while monotonic() < deadline:
            last = await self._keys.get(counter)
            found = {field: await self._keys.get(key) for field, key in keys.items()}
            old = {field: decoded_row(each.value).value for field, each in found.items() if each is not None}
            version = 0 if last is None else int(last.value)
            entries = differences(level, name, changes, old, version, actor)
            if not entries:
                return version
            read = {counter: last, **{keys[entry.field]: found[entry.field] for entry in entries}}
            conditions = [Unchanged(key, 0 if each is None else each.modified) for key, each in read.items()]
            version = entries[-1].version
            written = [part for entry in entries for part in self._parts(keys[entry.field], entry)]
            if await self._keys.transact(conditions, [Put(counter, str(version).encode()), *written]):
                return version
            await asyncio.sleep(random.uniform(0, _PAUSE_S))  # noqa: S311 - jitter
        raise StoreError(f"{self._place} has too many concurrent changes", "try again")

    def _parts(self, key: str, entry: Change) -> Iterator[Put | Delete]:
        """What one field's change writes."""
        if entry.value is None:
            yield Delete(key)
        else:
            yield Put(key, encoded_row(Row(entry.level, entry.name, entry.field, entry.value, entry.version)))
        yield Put(self._line(entry.version), encoded_change(entry))
        if entry.version > _KEPT_CHANGES:
            yield Delete(self._line(entry.version - _KEPT_CHANGES))

    def _fact(self, key: str) -> str:
        return f"{self._prefix}/facts/{key}"

    def _line(self, version: int) -> str:
        """The key of a history entry; keys sort in the order of versions."""
        return f"{self._prefix}/history/{version:016d}"

    @property
    def _keys(self) -> MetadataStore:
        if self._metadata is None or not self._thread.is_alive():
            raise StoreError(f"{self._place} was closed", "open it again")
        return self._metadata

    @property
    def _open_replica(self) -> Replica:
        if self._replica is None or not self._thread.is_alive():
            raise StoreError(f"{self._place} was closed", "open it again")
        return self._replica

    def _run(self, work: Coroutine[Any, Any, Result], longer_s: float = 0.0) -> Result:
        if not self._thread.is_alive():
            work.close()
            raise StoreError(f"{self._place} was closed", "open it again")
        done = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return done.result(2 * self._timeout_s + _MARGIN_S + longer_s)
        except FutureTimeoutError:
            done.cancel()
            raise StoreUnavailableError(
                f"{self._place} does not answer", "check its load and its network"
            ) from None
        except ValueError as error:
            message = f"{self._place} holds invalid policies ({error})"
            raise StoreError(message, "correct or delete those keys") from error
