"""A watch that survives etcd's restarts: it resumes after the last delivered revision."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from itertools import groupby
from time import monotonic_ns
from typing import Any

from grpc.aio import EOF, AioRpcError

from sluicegate.pacing.backoff import Backoff
from sluicegate.store.metadata.etcd import sluicegate_etcd_pb2 as pb
from sluicegate.store.metadata.etcd.channels import WATCH, Connection, first_response
from sluicegate.store.metadata.etcd.etcd_errors import explain, is_stale_login, is_unavailable
from sluicegate.store.metadata.metadata_store import CompactedError, Entry, Event
from sluicegate.store.policy_store import StoreError

_FIRST_RETRY_NS = 50_000_000
_LONGEST_RETRY_NS = 1_000_000_000
_NS = 1_000_000_000
Batch = tuple[Event, ...]


class Watch:
    """Watches one range of keys.

    :param connection: connection to etcd.
    :param key: first key of the range.
    :param end: the key after the last one of the range.
    :param after: the last known revision.
    :param entry_of: converts etcd's key-value message into an entry.
    """

    def __init__(
        self,
        connection: Connection,
        key: bytes,
        end: bytes,
        after: int,
        entry_of: Callable[[pb.KeyValue], Entry],
    ) -> None:
        self._connection = connection
        self._key, self._end = key, end
        self._after = after
        self._entry_of = entry_of
        self._retries = Backoff(_FIRST_RETRY_NS, _LONGEST_RETRY_NS)
        self._login_is_new = False

    async def batches(self) -> AsyncGenerator[Sequence[Event], None]:
        """The changes, grouped by revision, as `MetadataStore.watch` describes."""
        while not self._connection.is_closed():
            call = None
            member = self._connection.member
            try:
                await self._connection.log_in()
                call = self._connection.stream(WATCH)
                await self._create(call)
                self._retries.reset()
                while (response := await call.read()) is not EOF:
                    for batch in self._batches_in(response):
                        yield batch
            except AioRpcError as error:
                self._raise_if_permanent(error)
            except asyncio.CancelledError:
                # gRPC cancels the calls of a closed channel; the task itself is not cancelled then.
                if not self._connection.is_closed() or _is_cancelled():
                    raise
                return
            except (TimeoutError, EOFError):
                pass
            finally:
                if call is not None:
                    call.cancel()
            if not self._connection.is_closed():
                self._connection.leave_member(member)
                await asyncio.sleep(self._retries.failed(monotonic_ns()) / _NS)

    async def _create(self, call: Any) -> None:
        """Create the watch, and wait for etcd's confirmation.

        The watch starts at the last known revision, not after it: if etcd has compacted exactly the next one,
        it no longer knows what was deleted there.
        """
        create = pb.WatchCreateRequest(key=self._key, range_end=self._end, start_revision=max(1, self._after))
        async with asyncio.timeout(self._connection.address.timeout_s):
            response = await first_response(call, pb.WatchRequest(create_request=create))
        self._raise_if_cancelled(response)
        self._login_is_new = False
        if response.header.revision < self._after:
            raise CompactedError(
                f"etcd at {self._connection.address} is at revision {response.header.revision}, "
                f"before {self._after}: it was restored from a backup",
                "list again and watch from there",
            )

    def _batches_in(self, response: pb.WatchResponse) -> list[Batch]:
        self._raise_if_cancelled(response)
        batches = []
        for revision, events in groupby(response.events, lambda event: event.kv.mod_revision):
            if revision > self._after:
                self._after = revision
                batches.append(tuple(self._event(event) for event in events))
        return batches

    def _event(self, event: pb.WatchEvent) -> Event:
        entry = self._entry_of(event.kv)
        deleted = event.type == pb.WatchEvent.DELETE
        return Event(entry.key, entry.modified, None if deleted else entry)

    def _raise_if_cancelled(self, response: pb.WatchResponse) -> None:
        """Raise the cause if etcd has cancelled the watch."""
        address = self._connection.address
        if response.compact_revision:
            raise CompactedError(
                f"etcd at {address} compacted the changes up to revision {response.compact_revision}, "
                f"but the watch is at {self._after}",
                "list again and watch from there",
            )
        if not response.canceled:
            return
        if (
            "permission denied" in response.cancel_reason
            and not self._login_is_new
            and address.user is not None
        ):
            # etcd 3.4 also reports expired tokens this way.
            self._connection.forget_login()
            self._login_is_new = True
            raise TimeoutError
        if "no leader" in response.cancel_reason:
            raise TimeoutError
        raise StoreError(f"etcd at {address} ended a watch ({response.cancel_reason})", "see its log")

    def _raise_if_permanent(self, error: AioRpcError) -> None:
        if is_stale_login(error) and self._connection.address.user is not None and not self._login_is_new:
            self._connection.forget_login()
            self._login_is_new = True
        elif not is_unavailable(error):
            raise explain(error, self._connection.address) from error


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
