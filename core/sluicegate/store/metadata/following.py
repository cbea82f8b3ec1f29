"""Follow the keys below a prefix: all of them first, then their changes, and all again after a gap."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from time import monotonic_ns

from sluicegate.backoff import Backoff
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
    """What a prefix holds, for as long as it is iterated.

    A `Listing` replaces all that was known: it comes first, and again where changes were missed (compaction,
    a lost watch). Anything else is the changes of one revision, in order. Errors of the store do not end it:
    it lists again, after waits that grow. It ends when the store is closed while it watches.

    :param on_error: told of each error of the store, compaction too; it is not to raise.
    :param retries: waits after errors; at most two seconds by default.
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
