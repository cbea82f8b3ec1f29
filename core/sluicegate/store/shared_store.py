"""Policies in a metadata store such as etcd, so that any number of gateways share them."""

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from datetime import UTC, datetime
from time import monotonic
from typing import Any, TypeVar

from sluicegate.model import Level, PolicyLayer, PolicyValue
from sluicegate.store.metadata.metadata_store import Delete, MetadataStore, Put, Unchanged
from sluicegate.store.policy_store import Change, Row, StoreAwayError, StoreError, layers_of
from sluicegate.store.records import decoded_change, decoded_row, encoded_change, encoded_row, setting_key
from sluicegate.store.replica import VERSION_KEY, Replica

_KEPT_CHANGES = 1_000
_WRITING_S = 10.0
"""How long a change is tried again while others come first."""
_PAUSE_S = 0.02
_MARGIN_S = 5.0
"""What a call may take beyond the time-outs of the metadata store; it only ends what hangs."""
Result = TypeVar("Result")


class SharedStore:
    """See `PolicyStore`; a thread of its own follows the changes of all gateways and speaks to the store.

    `layers` and `version` come from memory. While the metadata store is away they raise, with the age of what
    is known: the gateway goes on with its last good policies.

    :param open_metadata: opens the metadata store; called in the thread's event loop.
    :param prefix: begins all keys; without a slash at its end.
    :param place: the store's name in errors, without a login.
    :param timeout_s: bound of one operation of the metadata store.
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
            self._copy.wait_for_listing(timeout_s + _MARGIN_S)
        except BaseException:
            self.close()
            raise

    def layers(self) -> tuple[int, tuple[PolicyLayer, ...]]:
        """Everything that is set, and the version it belongs to."""
        version, rows = self._copy.read()
        return version, layers_of(rows)

    def version(self) -> int:
        """Number of the last change, by any process."""
        return self._copy.version()

    def set(self, level: Level, name: str, field: str, value: PolicyValue, actor: str) -> int:
        """Set one field."""
        return self._change(level, name, field, value, actor)

    def unset(self, level: Level, name: str, field: str, actor: str) -> int:
        """Take one field away."""
        return self._change(level, name, field, None, actor)

    def history(self, limit: int) -> list[Change]:
        """The last changes, newest first."""

        async def read() -> list[Change]:
            found = (await self._keys.list(f"{self._prefix}/history/")).entries
            try:
                return [decoded_change(entry.value) for entry in found[-limit:][::-1]]
            except ValueError as error:
                message = f"{self._place} holds a history that cannot be read ({error})"
                raise StoreError(message, "delete what is wrong there") from error

        return self._run(read()) if limit > 0 else []

    def get_fact(self, key: str) -> str | None:
        """A fact kept with `put_fact`."""
        entry = self._run(self._keys.get(self._fact(key)))
        return None if entry is None else entry.value.decode(errors="replace")

    def put_fact(self, key: str, value: str) -> None:
        """Keep a small fact; one that another gateway kept already is not written again."""

        async def write() -> None:
            entry = await self._keys.get(self._fact(key))
            if entry is None or entry.value != value.encode():
                await self._keys.put(self._fact(key), value.encode())

        self._run(write())

    def claim_fact(self, key: str, value: str) -> str:
        """Keep a fact unless its key is taken."""

        async def claim() -> str:
            place = self._fact(key)
            while not await self._keys.transact([Unchanged(place, 0)], [Put(place, value.encode())]):
                entry = await self._keys.get(place)
                if entry is not None:  # else it was deleted just now
                    return entry.value.decode(errors="replace")
            return value

        return self._run(claim())

    def facts(self, prefix: str) -> Mapping[str, str]:
        """All facts whose keys begin with a prefix."""
        start = len(self._fact(""))
        found = self._run(self._keys.list(self._fact(prefix))).entries
        return {entry.key[start:]: entry.value.decode(errors="replace") for entry in found}

    def close(self) -> None:
        """Close the connection and end the thread; calling it again does nothing."""
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
        # gRPC ends its calls in tasks of its own, some turns after their channel was closed.
        if calls := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(calls, timeout=_MARGIN_S)
        await self._loop.shutdown_asyncgens()

    def _change(self, level: Level, name: str, field: str, value: PolicyValue | None, actor: str) -> int:
        version = self._run(self._write(level, name, field, value, actor), _WRITING_S)
        self._copy.wait_for_version(version, self._timeout_s)
        return version

    async def _write(self, level: Level, name: str, field: str, value: PolicyValue | None, actor: str) -> int:
        """Make one change on the condition that no other came in between; then it is tried again.

        :return: the version that it made, or the present one if there is nothing to change.
        """
        counter = f"{self._prefix}/policies/{VERSION_KEY}"
        key = f"{self._prefix}/policies/{setting_key(level, name, field)}"
        deadline = monotonic() + _WRITING_S
        while monotonic() < deadline:
            last, old = await self._keys.get(counter), await self._keys.get(key)
            version = 0 if last is None else int(last.value)
            if _same(None if old is None else decoded_row(old.value).value, value):
                return version
            version += 1
            at = datetime.now(UTC).isoformat(timespec="seconds")
            change = Change(version, level, name, field, value, actor, at)
            conditions = [
                Unchanged(counter, 0 if last is None else last.modified),
                Unchanged(key, 0 if old is None else old.modified),
            ]
            changes: list[Put | Delete] = [
                Put(counter, str(version).encode()),
                Put(self._line(version), encoded_change(change)),
                Delete(self._line(version - _KEPT_CHANGES)),
                Delete(key)
                if value is None
                else Put(key, encoded_row(Row(level, name, field, value, version))),
            ]
            if await self._keys.transact(conditions, changes):
                return version
            await asyncio.sleep(random.uniform(0, _PAUSE_S))  # noqa: S311 - so that others do not meet again
        raise StoreError(f"{self._place} is changed by others all the time", "try again")

    def _fact(self, key: str) -> str:
        return f"{self._prefix}/facts/{key}"

    def _line(self, version: int) -> str:
        """The key of a line of the history; keys are sorted as versions are."""
        return f"{self._prefix}/history/{max(0, version):016d}"

    @property
    def _keys(self) -> MetadataStore:
        if self._metadata is None or not self._thread.is_alive():
            raise StoreError(f"{self._place} was closed", "open it again")
        return self._metadata

    @property
    def _copy(self) -> Replica:
        if self._replica is None or not self._thread.is_alive():
            raise StoreError(f"{self._place} was closed", "open it again")
        return self._replica

    def _run(self, work: Coroutine[Any, Any, Result], longer_s: float = 0.0) -> Result:
        """Have the thread do something, and wait for it."""
        if not self._thread.is_alive():
            work.close()
            raise StoreError(f"{self._place} was closed", "open it again")
        done = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return done.result(2 * self._timeout_s + _MARGIN_S + longer_s)
        except FutureTimeoutError:
            done.cancel()
            raise StoreAwayError(f"{self._place} does not answer", "check its load and its network") from None
        except ValueError as error:
            message = f"{self._place} holds what is no policy ({error})"
            raise StoreError(message, "mend or delete those keys") from error


def _same(old: PolicyValue | None, new: PolicyValue | None) -> bool:
    # 1 == True in Python, but not in a policy.
    return old == new and type(old) is type(new)
