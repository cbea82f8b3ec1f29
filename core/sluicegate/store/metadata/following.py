"""Follows the keys below a prefix: a listing first, then changes, and a new listing after a gap."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from time import monotonic_ns

from sluicegate.pacing.backoff import Backoff
from sluicegate.store.metadata.metadata_store import Event, Listing, MetadataStore
from sluicegate.store.policy_store import StoreError

_FIRST_RETRY_NS = 100_000_000
_LONGEST_RETRY_NS = 2_000_000_000
_NS = 1_000_000_000


async def follow(
    store: MetadataStore,
    prefix: str,
    on_error: Callable[[StoreError], None] = lambda error: None,
    retries: Backoff | None = None,
) -> AsyncGenerator[Listing | Sequence[Event], None]:
    """Yield the contents of a prefix and then its changes.

    A `Listing` replaces all earlier state. It comes first, and again after changes were missed because of
    compaction or a lost watch. Other items are the changes of one revision, in order. After an error of the
    store, the iterator lists again with backoff. It ends when the store is closed during a watch.

    :param on_error: called with each error of the store, including compaction; it must not raise.
    :param retries: backoff after errors; at most two seconds by default.
    """
    retries = retries or Backoff(_FIRST_RETRY_NS, _LONGEST_RETRY_NS)
    while True:
        try:
            listing = await store.list(prefix)
            yield listing
            async with aclosing(store.watch(prefix, listing.revision)) as changes:
                async for events in changes:
                    retries.reset()
                    yield events
            return
        except StoreError as error:
            on_error(error)
            await asyncio.sleep(retries.failed(monotonic_ns()) / _NS)
