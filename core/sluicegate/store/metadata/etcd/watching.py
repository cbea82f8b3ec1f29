"""A watch that outlives etcd's restarts: it goes on behind the last revision that it gave."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from itertools import groupby
from time import monotonic_ns
from typing import Any

from grpc.aio import EOF, AioRpcError

from sluicegate.backoff import Backoff
from sluicegate.store.metadata.etcd import sluicegate_etcd_pb2 as pb
from sluicegate.store.metadata.etcd.channels import WATCH, Connection, first_answer
from sluicegate.store.metadata.etcd.etcd_errors import explain, is_away, is_stale_login
from sluicegate.store.metadata.metadata_store import CompactedError, Entry, Event
from sluicegate.store.policy_store import StoreError

_FIRST_RETRY_NS = 50_000_000
_LONGEST_RETRY_NS = 1_000_000_000
_NS = 1_000_000_000
Batch = tuple[Event, ...]


class Watch:
    """One watch.

    :param connection: to etcd.
    :param key: first key of the range, and `end` the one behind its last.
    :param after: the last revision that is known.
    :param entry_of: makes an entry of etcd's.
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
        """The changes, those of one revision together; see `MetadataStore.watch`."""
        while not self._connection.is_closed():
            call = None
            try:
                await self._connection.log_in()
                call = self._connection.stream(WATCH)
                await self._create(call)
                self._retries.reset()
                while (answer := await call.read()) is not EOF:
                    for batch in self._taken(answer):
                        yield batch
            except AioRpcError as error:
                self._judge(error)
            except asyncio.CancelledError:
                if not self._connection.is_closed() or _is_cancelled():
                    raise
                return
            except (TimeoutError, EOFError):
                pass
            finally:
                if call is not None:
                    call.cancel()
            if not self._connection.is_closed():
                self._connection.next_member()
                await asyncio.sleep(self._retries.failed(monotonic_ns()) / _NS)

    async def _create(self, call: Any) -> None:
        """Ask for the changes, and wait until etcd has taken the watch.

        etcd is asked for those of the last known revision, too: if it compacted exactly the next one, it no
        longer knows what was deleted there.
        """
        create = pb.WatchCreateRequest(key=self._key, range_end=self._end, start_revision=max(1, self._after))
        async with asyncio.timeout(self._connection.address.timeout_s):
            answer = await first_answer(call, pb.WatchRequest(create_request=create))
        self._refuse_cancelled(answer)
        self._login_is_new = False
        if answer.header.revision < self._after:
            raise CompactedError(
                f"etcd at {self._connection.address} is at revision {answer.header.revision}, "
                f"before {self._after}: it was restored from a backup",
                "list again and watch from there",
            )

    def _taken(self, answer: pb.WatchResponse) -> list[Batch]:
        self._refuse_cancelled(answer)
        found = []
        for revision, events in groupby(answer.events, lambda event: event.kv.mod_revision):
            if revision > self._after:
                self._after = revision
                found.append(tuple(self._event(event) for event in events))
        return found

    def _event(self, event: pb.WatchEvent) -> Event:
        entry = self._entry_of(event.kv)
        deleted = event.type == pb.WatchEvent.DELETE
        return Event(entry.key, entry.modified, None if deleted else entry)

    def _refuse_cancelled(self, answer: pb.WatchResponse) -> None:
        """Raise what ended a watch that etcd ended."""
        address = self._connection.address
        if answer.compact_revision:
            raise CompactedError(
                f"etcd at {address} compacted the changes up to revision {answer.compact_revision}, "
                f"those after {self._after} are asked for",
                "list again and watch from there",
            )
        if not answer.canceled:
            return
        if (
            "permission denied" in answer.cancel_reason
            and not self._login_is_new
            and address.user is not None
        ):
            # etcd 3.4 says so of an expired token, too.
            self._connection.forget_login()
            self._login_is_new = True
            raise TimeoutError
        if "no leader" in answer.cancel_reason:
            raise TimeoutError
        raise StoreError(f"etcd at {address} ended a watch ({answer.cancel_reason})", "see its log")

    def _judge(self, error: AioRpcError) -> None:
        """Raise what another attempt does not mend."""
        if is_stale_login(error) and self._connection.address.user is not None and not self._login_is_new:
            self._connection.forget_login()
            self._login_is_new = True
        elif not is_away(error):
            raise explain(error, self._connection.address) from error


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
